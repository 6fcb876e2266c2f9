package engine

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
)

// BenchmarkYear is a bar a day for a year of a busy rule.
func BenchmarkYear(b *testing.B) {
	p := newPast(b, history.DefaultKeep())
	store, err := filehistory.Open(filehistory.Config{Dir: b.TempDir(), Keep: history.DefaultKeep(), Now: p.now})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	p.store = store
	last := p.clock.Load() / minute
	var all []history.Increment
	for m := last - 365*day/minute; m <= last; m++ {
		all = append(all, history.Increment{ID: busy, Minute: m, Hits: 500})
	}
	p.count(all...)
	historytest.Roll(p.t, p.store, p.now())
	e := p.engine()
	to, points := p.now().Truncate(24*time.Hour), 0
	b.ReportAllocs()
	for b.Loop() {
		q, err := e.Range(b.Context(), "sum(increase("+selectorOf(busy)+"[1d]))", to.AddDate(-1, 0, 0), to, 24*time.Hour)
		if err != nil {
			b.Fatal(err)
		}
		m, err := q.Exec(b.Context()).Matrix()
		if err != nil || len(m) == 0 {
			b.Fatal(len(m), err)
		}
		points = m.TotalSamples()
		q.Close()
	}
	b.ReportMetric(float64(points), "points")
}
