package counter

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/incr"
	"github.com/weirproxy/weir/descriptors"
)

// BenchmarkDecide is a call with one check, on one server: alone, and with others under way. The script does nothing
// but an INCRBY, so this is the way there and back.
func BenchmarkDecide(b *testing.B) {
	server := redistest.Single(b)
	s := newStore(connect(b, redis.Config{URL: server.Addr}), nil, plainScript, plain)
	defer s.Close()
	run := func(next func() bool) {
		checks, out := hits("bench"), make([]backend.Decision, 1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		for next() {
			if err := backend.DecideAll(ctx, s, checks, out); err != nil {
				b.Error(err)
				return
			}
		}
	}
	b.Run("alone", func(b *testing.B) { run(b.Loop) })
	b.Run("32 at once", func(b *testing.B) {
		before := s.Stats()
		b.SetParallelism(16)
		b.RunParallel(func(p *testing.PB) { run(p.Next) })
		after := s.Stats()
		b.ReportMetric(float64(after.Checks-before.Checks)/float64(after.Batches-before.Batches), "checks/batch")
	})
}

// BenchmarkPlainKeys is a call with one check by INCRBY and EXPIRE beside one by the script, on one server, with others
// under way, and what each costs the server.
func BenchmarkPlainKeys(b *testing.B) {
	server := redistest.Single(b)
	m := openedMixed(b, redis.Config{URL: server.Addr}, nil, incr.Keys{Jitter: 300})
	limits := []descriptors.Limit{backendtest.NewLimit(b, 1<<40, descriptors.Hour, 1, descriptors.FixedWindow, 0)}
	for name, prefix := range map[string]string{"by INCRBY": "\x00bench_", "by the script": "5:bench"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			before := server.CPU(b)
			var client atomic.Int64
			b.RunParallel(func(p *testing.PB) {
				checks := []backend.Check{{Key: fmt.Appendf(nil, "%s%d_", prefix, client.Add(1)), Limits: limits, Hits: 1}}
				out := make([]backend.Decision, 1)
				for p.Next() {
					if err := backend.DecideAll(context.Background(), m, checks, out); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64((server.CPU(b)-before).Nanoseconds())/float64(b.N), "redis-ns/op")
		})
	}
}

// BenchmarkPair is what a second Redis for limits per second costs: a call for one of the two beside the same call
// without a pair, and one with a check for each.
func BenchmarkPair(b *testing.B) {
	limit := func(u descriptors.Unit) []descriptors.Limit {
		return []descriptors.Limit{backendtest.NewLimit(b, 1<<40, u, 1, descriptors.FixedWindow, 0)}
	}
	hour := backend.Check{Key: []byte("hour"), Limits: limit(descriptors.Hour), Hits: 1}
	second := backend.Check{Key: []byte("second"), Limits: limit(descriptors.Second), Hits: 1}
	stores := make([]*Store, 2)
	for i := range stores {
		var err error
		if stores[i], err = Open(Config{Redis: redis.Config{URL: redistest.Single(b).Addr}}); err != nil {
			b.Fatal(err)
		}
	}
	pair := NewPair(stores[0], stores[1])
	defer pair.Close()
	run := func(name string, on backend.Counter, checks ...backend.Check) {
		b.Run(name, func(b *testing.B) {
			out := make([]backend.Decision, len(checks))
			b.ReportAllocs()
			for b.Loop() {
				if err := on.Decide(context.Background(), checks, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("no pair", stores[0], hour)
	run("one of two", pair, hour)
	run("the other", pair, second)
	run("both", pair, hour, second)
}
