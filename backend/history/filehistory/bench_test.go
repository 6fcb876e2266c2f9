package filehistory

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirproxy/weir/backend/history"
)

var benchStart = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// cpu returns what this process has used so far. On a machine that others use too, it tells more than the clock.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func seriesOf(n int) []history.ID {
	ids := make([]history.ID, n)
	for i := range ids {
		ids[i] = history.ID{Domain: "shop", Path: fmt.Sprintf("user/path=%%2Fpay%d", i)}
	}
	return ids
}

// BenchmarkApply counts full batches of 200 series of one partition, a minute further every four, as flushes of 15
// seconds are, and runs the job once a day.
func BenchmarkApply(b *testing.B) {
	var increments []history.Increment
	for _, id := range seriesOf(history.MaxBatch * 2 * history.Partitions) {
		if id.Partition() == 7 && len(increments) < history.MaxBatch {
			increments = append(increments, history.Increment{ID: id, Hits: 100})
		}
	}
	for name, open := range map[string]func(Config) (*Store, error){"memory": InMemory, "file": Open} {
		b.Run(name, func(b *testing.B) {
			var clock atomic.Int64 // Unix seconds
			clock.Store(benchStart.Unix())
			now := func() time.Time { return time.Unix(clock.Load(), 0) }
			s := opened(b, open, Config{Dir: b.TempDir(), Now: now})
			used := cpu(b)
			for n := uint64(0); b.Loop(); n++ {
				minute := clock.Add(15) / 60
				for i := range increments {
					increments[i].Minute = minute
				}
				batch := history.Batch{Writer: "ann", Seq: n + 1, After: n, Increments: increments}
				got, err := s.Apply(b.Context(), 7, batch)
				if err != nil || got.Status != history.Applied || got.Refused > 0 {
					b.Fatalf("Apply: %+v, %v", got, err)
				}
				if n%(4*60*24) == 0 {
					if _, err := s.Roll(b.Context(), now()); err != nil {
						b.Fatal(err)
					}
				}
			}
			count := float64(b.N) * float64(len(increments))
			b.ReportMetric(count/b.Elapsed().Seconds(), "increments/s")
			b.ReportMetric(count/(cpu(b)-used).Seconds(), "increments/cpu-s")
		})
	}
}
