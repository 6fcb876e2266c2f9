package redishistory

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
)

// incrBy is the CPU of an INCRBY in a pipeline of 32, the shortest of some rounds: figures in INCRBYs compare machines.
func incrBy(b *testing.B, server *redistest.Server) time.Duration {
	b.Helper()
	best := time.Hour
	for range 5 {
		const pipelines = 300
		before := server.CPU(b)
		for range pipelines {
			_, err := server.Client().Pipelined(b.Context(), func(p redis.Pipeliner) error {
				for i := range 32 {
					p.IncrBy(b.Context(), fmt.Sprint("incrby", i), 3)
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		best = min(best, (server.CPU(b)-before)/(pipelines*32))
	}
	return best
}

// BenchmarkApply is full batches of as many series: what one core of Redis takes a second. The shortest of some rounds
// counts, as others use the machine too.
func BenchmarkApply(b *testing.B) {
	const series, rounds = 10_000, 6
	f := single(b)
	server := f.servers(b)[0]
	clock := newClock(start)
	s := opened(b, f, clock.now, nil)
	p, ids := partners(series)
	seq := uint64(0)
	pass := func() time.Duration {
		before := server.CPU(b)
		for at := 0; at < series; at += history.MaxBatch {
			seq++
			batch := history.Batch{Writer: "ann", Seq: seq, After: seq - 1}
			for i, id := range ids[at : at+history.MaxBatch] {
				batch.Increments = append(batch.Increments,
					history.Increment{ID: id, Minute: clock.now().Unix() / 60, Hits: uint64(400 + i)})
			}
			if _, err := s.Apply(b.Context(), p, batch); err != nil {
				b.Fatal(err)
			}
		}
		return (server.CPU(b) - before) / series
	}
	pass()
	fresh, known := time.Hour, time.Hour
	for range rounds {
		clock.set(clock.now().Add(time.Minute))
		fresh = min(fresh, pass())
		for range 3 { // the further flushes of a minute
			known = min(known, pass())
		}
	}
	unit := incrBy(b, server)
	mixed := (fresh + 3*known) / 4
	b.ReportMetric(float64(time.Second/mixed), "increments/s/core")
	b.ReportMetric(float64(known.Nanoseconds()), "ns/known-minute")
	b.ReportMetric(float64(fresh.Nanoseconds()), "ns/new-minute")
	b.ReportMetric(float64(mixed)/float64(unit), "INCRBYs/increment")
	b.ReportMetric(float64(unit.Nanoseconds()), "ns/INCRBY")
	b.ReportMetric(0, "ns/op")
}
