package ranking_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
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

// BenchmarkCountersTop ranks a million keys, as weir counters top does, and prints what that costs others: for rounds of
// three seconds with a ranking after the other, and as many without one in turns with them, how long checks wait that
// come at an even pace, and in Redis how long an INCRBY of another client takes.
func BenchmarkCountersTop(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		config := benchConfig(b)
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
			measureTop(b, config, store, store, map[string]func(int) error{"check": checkOf(config, store)})
		}
	})
	b.Run("redis", func(b *testing.B) {
		config := benchConfig(b)
		server := redistest.Single(b)
		store, err := counter.Open(counter.Config{Redis: redis.Config{URL: server.Addr, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}})
		if err != nil {
			b.Fatal(err)
		}
		defer store.Close()
		fillRedis(b, config, store, server)
		incr := func(i int) error { return server.Client().IncrBy(context.Background(), "other", 1).Err() }
		for b.Loop() {
			measureTop(b, config, store, store, map[string]func(int) error{"check": checkOf(config, store), "INCRBY": incr})
			reportServer(b, config, store, server)
		}
	})
}

// checkOf returns what asks for one hit of some user.
func checkOf(config *descriptors.Config, on backend.Counter) func(i int) error {
	checks, out := make([]backend.Check, 1000), make([]backend.Decision, 1)
	for i := range checks {
		checks[i] = userCheck(config, i*997, 1)
	}
	return func(i int) error {
		at := i % len(checks)
		return backend.DecideAll(context.Background(), on, checks[at:at+1], out)
	}
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

// measureTop runs loads with and without rankings, and reports how long each of their calls took.
func measureTop(b *testing.B, config *descriptors.Config, store ranking.Store, on backend.Counter, loads map[string]func(int) error) {
	b.Helper()
	took := make(map[string][]time.Duration) // by load, and whether a ranking ran
	var tops []ranking.Answer
	for round := range 2 * benchRounds {
		with := []string{"alone", "beside"}[round%2]
		until := time.Now().Add(benchRound)
		var running sync.WaitGroup
		var mu sync.Mutex
		for name, call := range loads {
			running.Go(func() {
				times, err := pace(call, until)
				if err != nil {
					b.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				took[name+" "+with] = append(took[name+" "+with], times...)
			})
		}
		for with == "beside" && time.Now().Before(until) {
			a, err := ranking.Find(context.Background(), config, store, ranking.Question{Domain: "shop", Rows: 20, For: 2 * time.Second})
			if err != nil {
				b.Error(err)
				break
			}
			tops = append(tops, a)
		}
		running.Wait()
	}
	for name, times := range took {
		slices.Sort(times)
		unit := strings.ReplaceAll(name, " ", "-")
		b.ReportMetric(micros(times[len(times)/2]), unit+"-p50-µs")
		b.ReportMetric(micros(times[len(times)*99/100]), unit+"-p99-µs")
	}
	var seen, seconds, complete float64
	for _, a := range tops {
		seen, seconds = seen+float64(a.Seen), seconds+a.Seconds
		if a.Complete {
			complete++
		}
	}
	n := float64(len(tops))
	b.ReportMetric(seconds/n, "top-s")
	b.ReportMetric(seen/n, "top-keys-seen")
	b.ReportMetric(complete/n, "top-complete")
	b.ReportMetric(0, "ns/op")
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// pace calls at an even pace until a time, and returns how long each call took from the moment at which it was due.
func pace(call func(int) error, until time.Time) (times []time.Duration, err error) {
	for i, due := 0, time.Now(); due.Before(until); i, due = i+1, due.Add(benchPace) {
		time.Sleep(time.Until(due))
		began := time.Now()
		if err := call(i); err != nil {
			return times, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// reportServer reports what one ranking costs the server.
func reportServer(b *testing.B, config *descriptors.Config, store ranking.Store, server *redistest.Server) {
	b.Helper()
	ctx := context.Background()
	before := server.CPU(b)
	if err := server.Client().ConfigResetStat(ctx).Err(); err != nil {
		b.Fatal(err)
	}
	a, err := ranking.Find(ctx, config, store, ranking.Question{Domain: "shop", Rows: 20, For: 2 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	spent := server.CPU(b) - before
	text, err := server.Client().Info(ctx, "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(text) {
		var calls, usec int
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if found && (name == "scan" || name == "hmget") {
			if _, err := fmt.Sscanf(rest, "calls=%d,usec=%d", &calls, &usec); err == nil {
				b.ReportMetric(float64(calls), "redis-"+name+"s")
				b.ReportMetric(float64(usec)/float64(max(1, calls)), "redis-"+name+"-µs")
			}
		}
	}
	b.ReportMetric(100*spent.Seconds()/a.Seconds, "redis-cpu-%")
}
