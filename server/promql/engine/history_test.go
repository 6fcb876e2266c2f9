package engine

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// past is a history under test, its clock, and all that it was told, by the minute.
type past struct {
	t     testing.TB
	clock atomic.Int64 // Unix seconds
	store history.Store
	hits  map[history.ID]map[int64]uint64
}

// someday is where clocks of the tests stand at first: not the start of any bucket.
var someday = time.Date(2026, 11, 23, 10, 17, 42, 0, time.UTC)

// newPast returns an empty history.
func newPast(t testing.TB, keep history.Retention) *past {
	p := &past{t: t, hits: make(map[history.ID]map[int64]uint64)}
	p.clock.Store(someday.Unix())
	p.store = historytest.NewLedgers(historytest.Options{Retention: keep, Now: p.now, Step: func(string) {}})
	return p
}

func (p *past) now() time.Time { return time.Unix(p.clock.Load(), 0).UTC() }

// count tells the history, and remembers.
func (p *past) count(increments ...history.Increment) {
	p.t.Helper()
	historytest.Count(p.t, p.store, increments...)
	for _, i := range increments {
		if p.hits[i.ID] == nil {
			p.hits[i.ID] = make(map[int64]uint64)
		}
		p.hits[i.ID][i.Minute] += i.Hits
	}
}

// between returns how many hits a series had from one moment to another, both at the start of a minute.
func (p *past) between(id history.ID, from, to int64) (sum uint64) {
	for at, hits := range p.hits[id] {
		if from <= at*minute && at*minute < to {
			sum += hits
		}
	}
	return sum
}

// engine returns an engine over the history, with wide bounds that a test may change.
func (p *past) engine(change ...func(*Config)) *Engine {
	c := Config{Store: p.store, Rules: noRules, Now: p.now, MaxSamples: 50_000_000, Timeout: time.Hour}
	for _, f := range change {
		f(&c)
	}
	return New(c)
}

func noRules() []*descriptors.Rule { return nil }

// instant returns the answer to a query for a moment, in Unix seconds.
func instant(t testing.TB, e *Engine, text string, at int64) *promql.Result {
	t.Helper()
	q, err := e.Instant(context.Background(), text, time.Unix(at, 0))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	t.Cleanup(q.Close)
	return q.Exec(context.Background())
}

// ranged returns the answer to a query for moments, in Unix seconds.
func ranged(t testing.TB, e *Engine, text string, from, to, step int64) *promql.Result {
	t.Helper()
	q, err := e.Range(context.Background(), text, time.Unix(from, 0), time.Unix(to, 0), time.Duration(step)*time.Second)
	if err != nil {
		t.Fatalf("%.60s: %v", text, err)
	}
	t.Cleanup(q.Close)
	return q.Exec(context.Background())
}

// curve returns an answer that must be at most one series: its values by moment.
func curve(t testing.TB, e *Engine, text string, from, to, step int64) map[int64]float64 {
	t.Helper()
	m, err := ranged(t, e, text, from, to, step).Matrix()
	if err != nil || len(m) > 1 {
		t.Fatalf("%s: %d series, error %v", text, len(m), err)
	}
	points := make(map[int64]float64)
	for _, s := range m {
		for _, f := range s.Floats {
			points[f.T/1000] = f.F
		}
	}
	return points
}

// one returns the value of a query for a moment that has exactly one.
func one(t testing.TB, e *Engine, text string, at int64) float64 {
	t.Helper()
	v, err := instant(t, e, text, at).Vector()
	if err != nil || len(v) != 1 {
		t.Fatalf("%s at %d: %v, error %v, want one value", text, at, v, err)
	}
	return v[0].F
}

// exact wants a value to be what was counted.
func exact(t testing.TB, what string, got, want float64) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v: between borders of buckets it is to be exact", what, got, want)
	}
}

// near reports whether two floats are the same but for rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

// selectorOf returns PromQL that selects a series' counter.
func selectorOf(id history.ID) string {
	i := counterLabels(id)
	return fmt.Sprintf("%s{domain=%q,path=%q,outcome=%q,value=%q}", i.Get(nameLabel), id.Domain, id.Path, i.Get(outcomeLabel), id.Value)
}

var (
	busy   = history.ID{Domain: "shop", Path: "user/path=%2Fpay"}
	sparse = history.ID{Domain: "shop", Path: "user", Outcome: history.Over}
)

// seventyDays is a history of a busy and of a sparse series.
func seventyDays(t testing.TB, keep history.Retention) *past {
	p := newPast(t, keep)
	last := p.clock.Load() / minute
	var all []history.Increment
	for m := last - 70*day/minute; m <= last; m++ {
		if m%3 != 0 && m > last-3*day/minute || m%11 == 0 {
			all = append(all, history.Increment{ID: busy, Minute: m, Hits: uint64(20 + (m*7919)%31)})
		}
		if m%3001 == 0 {
			all = append(all, history.Increment{ID: sparse, Minute: m, Hits: 2})
		}
	}
	p.count(all...)
	historytest.Downsample(p.t, p.store, p.now())
	return p
}

// rounded returns a float as the integer that it is next to, as sums of rates are not quite integers.
func rounded(f float64) uint64 { return uint64(math.Round(f)) }
