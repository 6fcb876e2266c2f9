package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// BenchmarkYear is a bar a day for a year of a busy rule.
func BenchmarkYear(b *testing.B) {
	p := inFile(b, b.TempDir())
	last := p.clock.Load() / minute
	var all []history.Increment
	for m := last - 365*day/minute; m <= last; m++ {
		all = append(all, history.Increment{ID: busy, Minute: m, Hits: 500})
	}
	p.count(all...)
	p.roll()
	p.measure(b, "sum(increase("+selectorOf(busy)+"[1d]))", 365*24*time.Hour, 24*time.Hour)
}

// BenchmarkTop is a week of the ten busiest of 1,000 rules, each with a hit every ten minutes, by a panel's 1,008 points.
func BenchmarkTop(b *testing.B) {
	p := inFile(b, b.TempDir())
	last := p.clock.Load() / minute
	for n := range 1000 {
		var all []history.Increment
		for m := last - 7*1440; m <= last; m += 10 {
			all = append(all, history.Increment{ID: history.ID{Domain: "shop", Path: fmt.Sprint("path=", n)}, Minute: m, Hits: uint64(n) + 1})
		}
		p.count(all...)
	}
	p.roll()
	p.measure(b, "topk(10, sum by (domain, path) (increase(weir_hits_total[10m])))", 7*24*time.Hour, 10*time.Minute)
}

func (p *past) measure(b *testing.B, text string, span, step time.Duration) {
	e := p.engine()
	to := p.now().Truncate(step)
	points := 0
	b.ReportAllocs()
	for b.Loop() {
		q, err := e.Range(context.Background(), text, to.Add(-span), to, step)
		if err != nil {
			b.Fatal(err)
		}
		m, err := q.Exec(context.Background()).Matrix()
		if err != nil || len(m) == 0 {
			b.Fatal(len(m), err)
		}
		points = m.TotalSamples()
		q.Close()
	}
	b.ReportMetric(float64(points), "points")
}
