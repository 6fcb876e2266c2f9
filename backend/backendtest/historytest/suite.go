// Package historytest is the conformance suite that every history store passes: a batch is counted once, moves between
// tiers are exact, nothing is lost under many hands or at a death between two steps, and random walks agree with a
// naive oracle that keeps every minute forever.
package historytest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/history"
)

// Options are how a store under test is to be set up.
type Options struct {
	Retention history.Retention
	// Now is the store's clock. It is called from many goroutines.
	Now func() time.Time
	// Step is to be called by the goroutine of Apply, Downsample or Query with the name of each step, before and after all
	// that another process would find half done if this one died in it. It may query the store, and it may end the
	// goroutine. It must not be called while the store cannot be read.
	Step func(name string)
}

// Open returns an empty store that lasts until its t ends.
type Open func(t *testing.T, o Options) history.Store

// Depth is how far the suite goes.
type Depth struct {
	Steps int    // of all random walks together
	Seed  uint64 // the same seed gives the same walks
	// Routing leaves out what hangs on a store's arithmetic: it is for a store that has passed all of the suite, and here
	// has its partitions elsewhere. With the race detector crowds stay in.
	Routing bool
}

// Run puts a store to the test.
func Run(t *testing.T, open Open, d Depth) {
	cases := slices.Concat(routingCases, batchCases, tierCases, crowdCases)
	switch {
	case d.Routing && process.Raced():
		cases = slices.Concat(routingCases, crowdCases)
	case d.Routing:
		cases = routingCases
	}
	for _, c := range cases {
		t.Run(c.promise, func(t *testing.T) { c.test(t, open) })
	}
	if d.Routing {
		return
	}
	t.Run("AWalkAgreesWithTheOracle", func(t *testing.T) { testWalk(t, open, d.Steps/2, d.Seed) })
	t.Run("AWalkUnderEarlyRollsStaysExact", func(t *testing.T) { testEarlyWalk(t, open, d.Steps-d.Steps/2, d.Seed) })
}

// routingCases hang on where partitions are, too.
var routingCases = []promiseCase{
	{"ABatchIsCountedOnce", testOnce},
	{"LateHitsAreRolledAgain", testLate},
	{"ADeathAtAnyStepLosesAndRepeatsNothing", testDeathAtSteps},
}

// promiseCase is one promise and its test.
type promiseCase struct {
	promise string
	test    func(t *testing.T, open Open)
}

// start is where the clocks of the suite begin: not the start of any bucket.
var start = time.Date(2026, 11, 21, 11, 59, 48, 700_000_000, time.UTC)

// bench is a store under test with the clock that it is given, and the naive oracle beside it.
type bench struct {
	t     *testing.T
	store history.Store
	clock atomic.Int64 // Unix nanoseconds
	step  atomic.Pointer[func(name string)]
	naive *naive
}

// newBench opens a store. A zero keep is the default.
func newBench(t *testing.T, open Open, keep history.Retention) *bench {
	t.Helper()
	if keep == (history.Retention{}) {
		keep = history.DefaultRetention()
	}
	b := &bench{t: t, naive: newNaive(keep)}
	b.setTime(start)
	b.store = open(t, Options{Retention: keep, Now: b.now, Step: func(name string) {
		if step := b.step.Load(); step != nil {
			(*step)(name)
		}
	}})
	return b
}

func (b *bench) now() time.Time             { return time.Unix(0, b.clock.Load()).UTC() }
func (b *bench) setTime(t time.Time)        { b.clock.Store(t.UnixNano()) }
func (b *bench) wait(d time.Duration)       { b.clock.Add(int64(d)) }
func (b *bench) minute() int64              { return b.now().Unix() / 60 }
func (b *bench) onStep(f func(name string)) { b.step.Store(&f) }

// apply sends a batch, which the store must accept.
func (b *bench) apply(p history.Partition, batch history.Batch) history.ApplyResult {
	b.t.Helper()
	result, err := b.store.Apply(context.Background(), p, batch)
	if err != nil {
		b.t.Fatalf("Apply of number %d of writer %q to partition %d: %v", batch.Seq, batch.Writer, p, err)
	}
	return result
}

// count brings increments into the store and the oracle. None may be left out.
func (b *bench) count(increments ...history.Increment) {
	b.t.Helper()
	Count(b.t, b.store, increments...)
	b.naive.apply(increments, b.now())
}

// downsample runs the job on the store and on the oracle, which must agree in what it did.
func (b *bench) downsample() history.DownsampleResult {
	b.t.Helper()
	got := b.downsampleStore(b.now())
	want := b.naive.downsample(b.now().Unix())
	want.Partitions = history.Partitions
	if got != want {
		b.t.Fatalf("the job at %v says that it did\n%+v, want\n%+v", b.now(), got, want)
	}
	return got
}

// downsampleStore runs the job on the store alone.
func (b *bench) downsampleStore(now time.Time) history.DownsampleResult {
	b.t.Helper()
	did, err := b.store.Downsample(context.Background(), now)
	if err != nil {
		b.t.Fatalf("Downsample: %v", err)
	}
	return did
}

// Everything returns a query for all there is.
func Everything() history.Query { return history.Query{From: math.MinInt64, To: math.MaxInt64} }

// only returns a query for all there is of one series.
func only(id history.ID) history.Query {
	q := Everything()
	q.Domain, q.Path, q.Value, q.Outcomes = &id.Domain, &id.Path, &id.Value, []history.Outcome{id.Outcome}
	return q
}

// query returns what the store answers, by series. No series may come twice.
func (b *bench) query(q history.Query) map[history.ID]history.Series {
	b.t.Helper()
	got := make(map[history.ID]history.Series)
	err := b.store.Query(context.Background(), q, func(s history.Series) error {
		if _, twice := got[s.ID]; twice {
			return fmt.Errorf("%v came twice in one query: whoever adds up its points counts hits twice", s.ID)
		}
		got[s.ID] = s
		return s.Err
	})
	if err != nil {
		b.t.Fatalf("asking for series: %v", err)
	}
	return got
}

// agree compares all that the store holds with the oracle, to the integer.
func (b *bench) agree() {
	b.t.Helper()
	b.agreeOn(Everything())
}

// agreeOn compares what a query answers with the oracle.
func (b *bench) agreeOn(q history.Query) {
	b.t.Helper()
	b.compare(b.query(q), b.naive.query(q), q)
}

// compare compares the answer to a query with what it should be.
func (b *bench) compare(got, want map[history.ID]history.Series, q history.Query) {
	b.t.Helper()
	for id, w := range want {
		g, found := got[id]
		if !found {
			b.t.Fatalf("%v is missing: it has %d hits", short(id), w.Lifetime)
		}
		if g.Lifetime != w.Lifetime || g.Expired != w.Expired {
			b.t.Fatalf("%v has lifetime %d and expired %d, want %d and %d",
				short(id), g.Lifetime, g.Expired, w.Lifetime, w.Expired)
		}
		if g.Fine != w.Fine {
			b.t.Fatalf("%v is fine: %v, want %v: the places of values hang on it", short(id), g.Fine, w.Fine)
		}
		if !slices.Equal(g.Points, w.Points) {
			b.t.Fatalf("%v from %d to %d at %v: %s", short(id), q.From, q.To, b.now(), difference(g.Points, w.Points))
		}
	}
	for id := range got {
		if _, known := want[id]; !known {
			b.t.Fatalf("%v was found, which no batch named or the query does not ask for", short(id))
		}
	}
}

// difference returns where two lists of points part.
func difference(got, want []history.Point) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	show := func(points []history.Point) string {
		if at >= len(points) {
			return "no more"
		}
		p := points[at]
		return fmt.Sprintf("%v %s sum %d peak %d",
			time.Unix(p.Start, 0).UTC().Format(time.DateTime), p.Tier, p.Sum, p.Peak)
	}
	return fmt.Sprintf("point %d of %d is %s; want, of %d, %s", at, len(got), show(got), len(want), show(want))
}

// short returns a series for messages; some IDs of the suite are long.
func short(id history.ID) string { return fmt.Sprintf("%.200q", fmt.Sprintf("%+v", id)) }

// conserved returns an error unless a series keeps P1: its points, as a query for all of them gives them, and what has
// expired make its lifetime, and they are in order.
func conserved(s history.Series) error {
	if s.Err != nil {
		return fmt.Errorf("%v cannot be read: %w", short(s.ID), s.Err)
	}
	sum, end := s.Expired, int64(math.MinInt64)
	for _, p := range s.Points {
		switch {
		case p.Start < end:
			return fmt.Errorf("%v: the %s from %d overlaps the point before it, or comes too late",
				short(s.ID), p.Tier, p.Start)
		case p.Sum == 0 || p.Peak == 0 || p.Peak > p.Sum || (p.Tier == history.Minutes && p.Peak != p.Sum):
			return fmt.Errorf("%v: the %s from %d has sum %d and peak %d", short(s.ID), p.Tier, p.Start, p.Sum, p.Peak)
		}
		sum, end = sum+p.Sum, p.End()
	}
	if sum != s.Lifetime {
		return fmt.Errorf("%v: its points and the %d expired make %d, but %d hits were counted: P1 is broken",
			short(s.ID), s.Expired, sum, s.Lifetime)
	}
	return nil
}
