package ranking_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter"
	"github.com/weirproxy/weir/backend/redis/counter/script"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/ranking"
)

const (
	benchKeys   = 1_000_000
	benchRounds = 5               // with and without a ranking, in turns
	benchRound  = 3 * time.Second // each
	benchPace   = time.Millisecond
)

func benchConfig(b *testing.B) *descriptors.Config {
	b.Helper()
	config, problems := yaml.Parse([]yaml.File{{Name: "shop.yaml", Data: []byte(
		"domain: shop\ndescriptors: [{key: user, rate_limit: {requests_per_unit: 100, unit: hour}}]")}},
		yaml.Options{Algorithm: descriptors.SlidingWindow})
	if err := problems.Err(); err != nil {
		b.Fatal(err)
	}
	return config
}

// userCheck is a check of the i-th user.
func userCheck(config *descriptors.Config, i int, hits uint64) backend.Check {
	d := descriptors.Descriptor{{Key: "user", Value: fmt.Sprintf("user-%07d", i)}}
	m := config.Match("shop", d)
	return backend.Check{Key: m.AppendKey(nil, "shop", d), Limits: m.Rule.Limits, Hits: hits}
}

// BenchmarkCountersTop ranks a million keys, as weir counters top does, and prints what that costs others: how long checks
// wait that come at an even pace, for rounds of three seconds with a ranking after the other, and as many without one in
// turns with them; and in Redis the CPU of the server while a ranking runs.
func BenchmarkCountersTop(b *testing.B) {
	config := benchConfig(b)
	b.Run("memory", func(b *testing.B) {
		store, err := memory.Open(memory.Config{MaxKeys: 2 * benchKeys})
		if err != nil {
			b.Fatal(err)
		}
		defer store.Close()
		for i := range benchKeys {
			if err := store.Decide(context.Background(), []backend.Check{userCheck(config, i, uint64(i%100+1))}, make([]backend.Decision, 1)); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			measureTop(b, config, store, store)
		}
	})
	b.Run("redis", func(b *testing.B) {
		server := redistest.Single(b)
		store, err := counter.Open(counter.Config{Redis: redis.Config{URL: server.Addr, Log: slog.New(slog.DiscardHandler)}})
		if err != nil {
			b.Fatal(err)
		}
		defer store.Close()
		fillRedis(b, config, store, server)
		for b.Loop() {
			measureTop(b, config, store, store)
			before := server.CPU(b)
			a, err := ranking.Find(context.Background(), config, store, ranking.Question{Domain: "shop", Rows: 20, For: 2 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(100*(server.CPU(b)-before).Seconds()/a.Seconds, "redis-cpu-%")
		}
	})
}

// fillRedis copies what a hundred users have counted to all others.
func fillRedis(b *testing.B, config *descriptors.Config, store backend.Counter, server *redistest.Server) {
	b.Helper()
	ctx := context.Background()
	var hashes []map[string]string
	for i := range 100 {
		check, out := userCheck(config, i, uint64(i+1)), make([]backend.Decision, 1)
		if err := backend.DecideAll(ctx, store, []backend.Check{check}, out); err != nil {
			b.Fatal(err)
		}
		hash, err := server.Client().HGetAll(ctx, string(script.AppendKey(nil, check.Key))).Result()
		if err != nil {
			b.Fatal(err)
		}
		hashes = append(hashes, hash)
	}
	for i := 100; i < benchKeys; {
		pipe := server.Client().Pipeline()
		for end := i + 2000; i < min(end, benchKeys); i++ {
			pipe.HSet(ctx, string(script.AppendKey(nil, userCheck(config, i, 1).Key)), hashes[i%100])
		}
		if _, err := pipe.Exec(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// measureTop has checks come with and without rankings beside them, and reports how long each of them took.
func measureTop(b *testing.B, config *descriptors.Config, store ranking.Store, on backend.Counter) {
	b.Helper()
	took := make(map[string][]time.Duration)
	var seen, seconds, tops float64
	for round := range 2 * benchRounds {
		with := []string{"alone", "beside"}[round%2]
		until, paced := time.Now().Add(benchRound), make(chan error)
		go func() { paced <- pace(config, on, until, func(t time.Duration) { took[with] = append(took[with], t) }) }()
		for with == "beside" && time.Now().Before(until) {
			a, err := ranking.Find(context.Background(), config, store, ranking.Question{Domain: "shop", Rows: 20, For: 2 * time.Second})
			if err != nil {
				b.Error(err)
				break
			}
			seen, seconds, tops = seen+float64(a.Seen), seconds+a.Seconds, tops+1
		}
		if err := <-paced; err != nil {
			b.Error(err)
		}
	}
	for with, times := range took {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1000, "check-"+with+"-p50-µs")
		b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "check-"+with+"-p99-µs")
	}
	b.ReportMetric(seconds/tops, "top-s")
	b.ReportMetric(seen/tops, "top-keys-seen")
	b.ReportMetric(0, "ns/op")
}

// pace asks for one hit of some user at an even pace until a time, and tells how long each took.
func pace(config *descriptors.Config, on backend.Counter, until time.Time, tell func(time.Duration)) error {
	out := make([]backend.Decision, 1)
	for i, due := 0, time.Now(); due.Before(until); i, due = i+1, due.Add(benchPace) {
		checks := []backend.Check{userCheck(config, i%1000*997, 1)}
		time.Sleep(time.Until(due))
		began := time.Now()
		if err := backend.DecideAll(context.Background(), on, checks, out); err != nil {
			return err
		}
		tell(time.Since(began))
	}
	return nil
}
