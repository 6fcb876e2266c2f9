package redishistory

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
)

var moved = flag.Int("moved", 500, "how many series BenchmarkMove has, each busy for a year")

// BenchmarkMove moves a year of busy series from two nodes to three and back, beside a client that asks the first all the time.
// -moved 10000 is what OPERATION.md tells of.
func BenchmarkMove(b *testing.B) {
	nodes := redistest.Ring(b, 3)
	s := opened(b, ringOf(nodes[:2]...), fixed(start), nil)
	fillYears(b, s, nodes[:2])
	client := nodes[0].Client()
	alone := latencies(client, time.After(3*time.Second))
	busy := make(chan []time.Duration)
	ends := make(chan time.Time)
	go func() { busy <- latencies(client, ends) }()
	for n := 0; b.Loop(); n++ {
		begin := time.Now()
		r, err := s.Move(context.Background(), MoveConfig{To: urlOf(nodes[:3-n%2]...)})
		if err != nil {
			b.Fatal(err)
		}
		var bytes, series uint64
		for _, one := range r.Partitions {
			bytes, series = bytes+one.Bytes, series+one.Series
		}
		b.ReportMetric(float64(series), "series")
		b.ReportMetric(float64(bytes)/1e6, "MB")
		b.ReportMetric(float64(series)/time.Since(begin).Seconds(), "series/s")
	}
	close(ends)
	for name, all := range map[string][]time.Duration{"alone": alone, "beside": <-busy} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us-"+name)
	}
}

// latencies are how long a server takes to answer a small command, until something comes.
func latencies[T any](client *goredis.Client, end <-chan T) (all []time.Duration) {
	for {
		select {
		case <-end:
			return all
		case <-time.After(time.Millisecond):
			begin := time.Now()
			client.Get(context.Background(), placementKey)
			all = append(all, time.Since(begin))
		}
	}
}

// fillYears fills a ring with series that all are like one whose every minute of the last year has hits.
func fillYears(b *testing.B, s *Store, nodes []*redistest.Server) {
	one := history.ID{Domain: "shop", Path: "p"}
	keep := history.DefaultKeep()
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
