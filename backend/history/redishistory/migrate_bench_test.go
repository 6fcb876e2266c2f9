package redishistory

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

var moved = flag.Int("moved", 500, "how many series BenchmarkMove has, each busy for a year")

// BenchmarkMove moves a year of busy series from two nodes to three and back by the command, beside a weir that counts
// on the first two and keeps its history there. Its calls are measured before and during each move, in turn. -moved
// 10000 is what OPERATION.md tells of.
func BenchmarkMove(b *testing.B) {
	nodes := redistest.Ring(b, 3)
	s := opened(b, ringOf(nodes[:2]...), fixed(start), nil)
	fillYears(b, s, nodes[:2])
	env := []string{"REDIS_TYPE=ring", "REDIS_URL=" + urlOf(nodes[:2]...), "REDIS_HISTORY_URL=" + urlOf(nodes[:2]...), weirtest.PatientRedis}
	asks := weirtest.Serve(b, weirtest.Rule("bench", "unit: hour, requests_per_unit: 1000000"), env...).Client(b)
	length := 5 * time.Second
	var alone, during []time.Duration // the p99 of each round
	for n := 0; b.Loop(); n++ {
		alone = append(alone, p99(b, asks, time.After(length)))
		begin := time.Now()
		mover := process.Start(b, "weir history move", env, process.Weir(b), "history", "move", "--json", "--to", urlOf(nodes[:3-n%2]...))
		during = append(during, p99(b, asks, ended(mover)))
		var r MoveResult
		_, printed, _ := strings.Cut(mover.Log.String(), "{")
		if err := json.NewDecoder(strings.NewReader("{" + printed)).Decode(&r); err != nil || mover.ExitCode(b) != 0 {
			b.Fatalf("weir history move prints %.1000s", mover.Log)
		}
		length = min(time.Since(begin), 20*time.Second)
		var bytes, series uint64
		for _, one := range r.Partitions {
			bytes, series = bytes+one.Bytes, series+one.Series
		}
		b.Logf("%d series, %.0f MB in %v; the calls' p99 was %v before and %v meanwhile", series, float64(bytes)/1e6,
			time.Since(begin).Round(time.Second), alone[n], during[n])
	}
	for name, all := range map[string][]time.Duration{"before": alone, "during": during} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p99-us-"+name)
	}
}

// ended is closed once a process has ended.
func ended(p *process.Process) <-chan bool {
	end := make(chan bool)
	go func() {
		for p.Ended() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		close(end)
	}()
	return end
}

// p99 calls weir, 200 times a second at most, until something comes, and returns how long 99 of 100 calls took at most.
func p99[T any](b *testing.B, asks *weirtest.Client, end <-chan T) time.Duration {
	var all []time.Duration
	for {
		select {
		case <-end:
			slices.Sort(all)
			return all[len(all)*99/100]
		case <-time.After(5 * time.Millisecond):
			begin := time.Now()
			if _, err := asks.Hit("bench", fmt.Sprint("user", len(all)%100)); err != nil {
				b.Error(err)
			}
			all = append(all, time.Since(begin))
		}
	}
}

// fillYears fills a ring with series that all are like one whose every minute of the last year has hits.
func fillYears(b *testing.B, s *Store, nodes []*redistest.Server) {
	one := history.ID{Domain: "shop", Path: "p"}
	keep := history.DefaultRetention()
	var increments []history.Increment
	at := start.Unix() / 60
	for m := at; m > at-365*1440; {
		tier, width := history.Minutes, int64(1)
		for t := history.Minutes; t < history.Days && time.Duration(at-m)*time.Minute > keep.Ages[t]; t++ {
			tier, width = t+1, (t+1).Width()/60
		}
		hits := uint64(width * (500 + m%37))
		increments = append(increments, history.Increment{ID: one, Minute: m / width * width, Hits: hits, Tier: tier, Peak: 530})
		m = m/width*width - 1
	}
	historytest.Count(b, s, increments...)
	p := one.Partition()
	node := func(p history.Partition) *goredis.Client {
		r, err := s.route(context.Background(), p)
		if err != nil {
			b.Fatal(err)
		}
		return nodes[slices.IndexFunc(nodes, func(n *redistest.Server) bool { return n.Addr == r.node })].Client()
	}
	records, _, err := s.readRecords(context.Background(), p, []history.ID{one})
	if err != nil || len(records) != 1 {
		b.Fatal(err)
	}
	dumps := make(map[string]string)
	for _, key := range records[0].allKeys() {
		if content := node(p).Dump(context.Background(), key).Val(); content != "" {
			dumps[key[len(records[0].key):]] = content
		}
	}
	for i := range *moved {
		id := history.ID{Domain: "shop", Path: fmt.Sprint("user/", i)}
		name := seriesName(id)
		_, err := node(id.Partition()).Pipelined(context.Background(), func(pipe goredis.Pipeliner) error {
			for suffix, content := range dumps {
				pipe.Restore(context.Background(), seriesKey(id.Partition(), name)+suffix, 0, content)
			}
			pipe.ZAdd(context.Background(), dueKey(id.Partition()), goredis.Z{Score: float64(start.Unix() + 3600), Member: name})
			pipe.Set(context.Background(), formatKey(id.Partition()), format, 0)
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("%d series, each of %d keys and %d points", *moved, len(dumps), len(increments))
}
