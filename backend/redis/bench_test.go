package redis

import (
	"context"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// BenchmarkDecide is a call with one check, on one server: alone, and with others under way. The script does nothing
// but an INCRBY, so this is the way there and back.
func BenchmarkDecide(b *testing.B) {
	server := redistest.Single(b)
	config, err := Config{URL: server.Addr}.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	on, err := newTopology(config)
	if err != nil {
		b.Fatal(err)
	}
	s := newStore(on, config, plain)
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
