package filehistory

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirproxy/weir/backend/history"
)

var benchStart = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// metered is a store whose clock the benchmark sets, and the writer that fills it.
type metered struct {
	*Store
	tb    testing.TB
	clock atomic.Int64 // Unix seconds
	seqs  map[history.Partition]uint64
}

// meter opens a store in a file, or in memory.
func meter(tb testing.TB, inFile bool) *metered {
	m := &metered{tb: tb, seqs: make(map[history.Partition]uint64)}
	m.clock.Store(benchStart.Unix())
	now := func() time.Time { return time.Unix(m.clock.Load(), 0) }
	c := Config{Dir: tb.TempDir(), Keep: history.DefaultKeep(), Now: now}
	open := InMemory
	if inFile {
		open = Open
	}
	s, err := open(c)
	m.Store = ready(tb, s, err)
	return m
}

// count sends increments of one partition.
func (m *metered) count(p history.Partition, increments []history.Increment) {
	m.tb.Helper()
	m.seqs[p]++
	b := history.Batch{Writer: fmt.Sprint(m.clock.Load() / 86400 / 5), Seq: m.seqs[p], Increments: increments}
	if got, err := m.Apply(context.Background(), p, b); err != nil || got.Status != history.Applied || got.Refused > 0 {
		m.tb.Fatalf("Apply: %+v, %v", got, err)
	}
}

// countAll sorts increments into batches and sends them.
func (m *metered) countAll(all []history.Increment) {
	m.tb.Helper()
	open := make(map[history.Partition][]history.Increment)
	for _, i := range all {
		p := i.ID.Partition()
		if open[p] = append(open[p], i); len(open[p]) == history.MaxBatch {
			m.count(p, open[p])
			open[p] = nil
		}
	}
	for p, some := range open {
		if len(some) > 0 {
			m.count(p, some)
		}
	}
}

func (m *metered) roll() history.RollResult {
	m.tb.Helper()
	did, err := m.Roll(context.Background(), history.Job{Now: m.c.Now()})
	if err != nil {
		m.tb.Fatal(err)
	}
	return did
}

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

func inBoth(b *testing.B, bench func(b *testing.B, m *metered)) {
	b.Run("memory", func(b *testing.B) { bench(b, meter(b, false)) })
	b.Run("file", func(b *testing.B) { bench(b, meter(b, true)) })
}

// BenchmarkApply counts full batches of 200 series of one partition, a minute further every four, as flushes of 15
// seconds are.
func BenchmarkApply(b *testing.B) {
	var increments []history.Increment
	for _, id := range seriesOf(history.MaxBatch * 2 * history.Partitions) {
		if id.Partition() == 7 && len(increments) < history.MaxBatch {
			increments = append(increments, history.Increment{ID: id, Hits: 100})
		}
	}
	inBoth(b, func(b *testing.B, m *metered) {
		used := cpu(b)
		for n := 0; b.Loop(); n++ {
			m.clock.Add(15)
			for i := range increments {
				increments[i].Minute = m.clock.Load() / 60
			}
			m.count(7, increments)
			if n%(4*60*24) == 0 {
				m.roll()
			}
		}
		count := float64(b.N) * float64(len(increments))
		b.ReportMetric(count/b.Elapsed().Seconds(), "increments/s")
		b.ReportMetric(count/(cpu(b)-used).Seconds(), "increments/cpu-s")
	})
}

// BenchmarkRoll moves the minutes of 1,000 busy series of one hour.
func BenchmarkRoll(b *testing.B) {
	ids := seriesOf(1000)
	inBoth(b, func(b *testing.B, m *metered) {
		b.StopTimer()
		var used time.Duration
		for range b.N {
			hour := m.clock.Load() / 3600 * 60
			var increments []history.Increment
			for minute := range int64(60) {
				for _, id := range ids {
					hits := uint64(400 + minute*7%200)
					increments = append(increments, history.Increment{ID: id, Minute: hour - 60 + minute, Hits: hits})
				}
			}
			m.db.NoSync = true
			m.countAll(increments)
			m.db.NoSync = false
			m.clock.Add(3600)
			early := m.clock.Load()
			m.clock.Add(86400)
			before := cpu(b)
			b.StartTimer()
			did := m.roll()
			b.StopTimer()
			used += cpu(b) - before
			m.clock.Store(early)
			if did.Chunks[history.Minutes] != 1000 || did.Points[history.Minutes] != 60000 {
				b.Fatalf("the job did %+v, want the 60 minutes of 1000 series", did)
			}
		}
		b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
	})
}
