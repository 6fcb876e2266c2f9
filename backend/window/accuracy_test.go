package window_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

var writeAccuracy = flag.Bool("write", false, "write what is measured into ACCURACY.md")

// minute is the window of all limits here, in microseconds.
const minute = window.Instant(60e6)

// counter is an algorithm with the state of one key.
type counter interface {
	ask(now window.Instant) bool // whether a hit is admitted, no earlier than the one before
	bytes() int                  // of its state
}

// counters are the algorithms that are compared: weir's, then what others have. Make new ones for each traffic.
var counters = []struct {
	name string
	make func(t *testing.T, n int) counter
}{
	{"`sliding_window`", func(t *testing.T, n int) counter { return ofWeir(t, n, descriptors.SlidingWindow) }},
	{"with leases, 1 replica", func(t *testing.T, n int) counter { return newFleet(t, n, 1) }},
	{"with leases, 3 replicas", func(t *testing.T, n int) counter { return newFleet(t, n, 3) }},
	{"with leases, 10 replicas", func(t *testing.T, n int) counter { return newFleet(t, n, 10) }},
	{"`sliding_log`", func(t *testing.T, n int) counter { return ofWeir(t, n, descriptors.SlidingLog) }},
	{"`fixed_window`", func(t *testing.T, n int) counter { return ofWeir(t, n, descriptors.FixedWindow) }},
	{"`token_bucket`, burst N", func(t *testing.T, n int) counter { return ofWeir(t, n, descriptors.TokenBucket) }},
	{"two-bucket counter", func(_ *testing.T, n int) counter { return &twoBuckets{n: float64(n)} }},
	{"GCRA", func(_ *testing.T, n int) counter { return &gcra{emission: float64(minute) / float64(n)} }},
	{"counter by the clock's window", func(_ *testing.T, n int) counter { return &clockWindow{n: n} }},
}

// ownState is a limit of weir's: the arithmetic that every store has.
type ownState struct {
	states []window.State
	check  backend.Check
}

func ofWeir(t *testing.T, n int, a descriptors.Algorithm) counter {
	limits := []descriptors.Limit{backendtest.NewLimit(t, uint64(n), descriptors.Minute, 1, a, 0)}
	return &ownState{states: states(limits), check: backend.Check{Limits: limits, Hits: 1}}
}

func (s *ownState) ask(now window.Instant) bool {
	return window.Decide(s.states, &s.check, now).Allowed
}
func (s *ownState) bytes() int { return len(s.states[0].Append(nil)) }

// twoBuckets weighs the count of the last window of the clock by what of it lies in the rolling one, and adds this one's.
type twoBuckets struct {
	n, last, count float64
	window         window.Instant
}

func (c *twoBuckets) ask(now window.Instant) bool {
	if w := now / minute; w != c.window {
		if c.last = 0; w == c.window+1 {
			c.last = c.count
		}
		c.window, c.count = w, 0
	}
	if c.last*(1-float64(now%minute)/float64(minute))+c.count+1 > c.n {
		return false
	}
	c.count++
	return true
}

func (*twoBuckets) bytes() int { return 24 }

// gcra keeps the theoretical arrival time, with a burst of N.
type gcra struct{ arrival, emission float64 }

func (c *gcra) ask(now window.Instant) bool {
	arrival := max(c.arrival, float64(now))
	if arrival-float64(now) > float64(minute)-c.emission {
		return false
	}
	c.arrival = arrival + c.emission
	return true
}

func (*gcra) bytes() int { return 8 }

// clockWindow counts what it is asked in a window of the clock.
type clockWindow struct {
	n, count int
	window   window.Instant
}

func (c *clockWindow) ask(now window.Instant) bool {
	if w := now / minute; w != c.window {
		c.window, c.count = w, 0
	}
	c.count++
	return c.count <= c.n
}

func (*clockWindow) bytes() int { return 16 }

// fleet is replicas of weir that lease from one store, on a clock that is moved.
type fleet struct {
	lender
	replicas []*limit.Limiter
	guards   []*guard.Guard
	settled  window.Instant
	random   *rand.Rand
	call     limit.Call
}

func newFleet(t *testing.T, n, replicas int) counter {
	f := &fleet{random: rand.New(rand.NewPCG(uint64(n), uint64(replicas)))}
	config := fixture.Config(t, fmt.Sprintf("domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: %d, unit: minute}}]\n", n))
	for range replicas {
		g := guard.New(&f.lender, guard.Config{Leases: true, Replicas: func() int { return replicas },
			Now: func() time.Time { return time.UnixMicro(int64(f.now)) }})
		l := limit.New(g, limit.Options{CanLease: true, Leases: true}, hits.New(0))
		l.Apply(config)
		f.replicas, f.guards = append(f.replicas, l), append(f.guards, g)
	}
	t.Cleanup(func() {
		for _, g := range f.guards {
			_ = g.Close() // the lender has nothing to close
		}
	})
	return f
}

// ask asks any replica. All settle what has ended as often as they do.
func (f *fleet) ask(now window.Instant) bool {
	const pause = 50_000
	if f.settled == 0 {
		f.settled = now
	}
	for ; f.settled+pause <= now; f.settled += pause {
		if f.now = max(f.now, f.settled); f.leased {
			for _, g := range f.guards {
				g.Settle(context.Background())
			}
		}
	}
	f.now = now
	f.call.Reset()
	f.call.Domain, f.call.At = "d", time.UnixMicro(int64(now))
	d := f.call.AddDescriptor()
	d.Entries = append(d.Entries, descriptors.Entry{Key: "k", Value: "v"})
	err := f.replicas[f.random.IntN(len(f.replicas))].Decide(context.Background(), &f.call)
	return err == nil && f.call.Result != limit.OverLimit
}

func (f *fleet) bytes() int { return len(f.states[0].Append(nil)) }

// lender is a store of one key that leases as backend.Lease has it.
type lender struct {
	now    window.Instant
	states window.States
	last   int64 // the second in which it last counted
	leased bool  // ever
}

// Decide implements backend.Counter.
func (s *lender) Decide(_ context.Context, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		c, q, second := &checks[i], checks[i].Lease, int64(s.now/1e6)
		if q != nil && c.Op == backend.Refund {
			if q.ChargedAt.Unix() == s.last && q.Unused > 0 { // else the hits leave with their window
				s.states[0].Add(s.now, -int64(q.Unused))
				q.Returned = q.Unused
			}
			out[i] = backend.Decision{Allowed: true}
			continue
		}
		out[i], _ = s.states.Decide(c, s.now, nil)
		if c.Op != backend.Count || !out[i].Allowed {
			continue
		}
		if s.last = second; q == nil {
			continue
		}
		q.Now, q.Hits = time.UnixMicro(int64(s.now)), 0
		free := out[i].Remaining / q.Share
		if hits := min(q.Want, free-min(free, q.Abandoned)); hits >= backend.MinLeaseHits && hits >= q.Want/4 {
			s.states[0].Add(s.now, int64(hits))
			out[i].Remaining -= hits
			q.Hits, s.leased = hits, true
		}
	}
	return nil
}

// Close implements backend.Counter.
func (*lender) Close() error { return nil }

// Inspect implements backend.Inspector.
func (*lender) Inspect(context.Context, []byte, []descriptors.Limit) ([]backend.LimitCount, error) {
	return nil, nil
}

// Reset implements backend.Inspector.
func (*lender) Reset(context.Context, []byte) error { return nil }

// traffics are what is asked of a limit of N a minute, over some windows.
var traffics = []struct {
	name string
	make func(n, windows int) []window.Instant
}{
	{"0.5 N", poisson(.5)}, {"0.9 N", poisson(.9)}, {"N", poisson(1)}, {"1.2 N", poisson(1.2)}, {"3 N", poisson(3)}, {"boundary", boundary},
}

// poisson makes arrivals of a share of N a minute.
func poisson(share float64) func(n, windows int) []window.Instant {
	return func(n, windows int) (all []window.Instant) {
		r := rand.New(rand.NewPCG(uint64(n), math.Float64bits(share)))
		for at := 0.; at < float64(windows); at += r.ExpFloat64() / share / float64(n) {
			all = append(all, noon+window.Instant(at*float64(minute)))
		}
		return all
	}
}

// boundary makes N arrivals in the second before every other minute begins, and N in the second after.
func boundary(n, windows int) (all []window.Instant) {
	for turn := 1; turn < windows; turn += 2 {
		for i := range 2 * n {
			all = append(all, noon+window.Instant(turn)*minute-1e6+window.Instant(i*1e6/n))
		}
	}
	return all
}

// accuracy is how a counter decided a traffic.
type accuracy struct {
	asked, worst, early, differing, bytes int
}

// log is the instants at which something was counted in the last minute.
type log []window.Instant

// at forgets what is older than a minute.
func (l *log) at(now window.Instant) {
	for len(*l) > 0 && (*l)[0] <= now-minute {
		*l = (*l)[1:]
	}
}

// measure has a counter decide arrivals. A hit is denied too early if it fits a log of what was admitted, and of the hits
// before it that were denied too early: so no more are than could have been admitted.
func measure(c counter, n int, arrivals []window.Instant, exact []bool) (a accuracy, verdicts []bool) {
	var admitted, fitting log
	for i, now := range arrivals {
		admitted.at(now)
		fitting.at(now)
		allowed := c.ask(now)
		if verdicts = append(verdicts, allowed); allowed {
			admitted, fitting = append(admitted, now), append(fitting, now)
		} else if len(fitting) < n {
			a.early++
			fitting = append(fitting, now)
		}
		if exact != nil && allowed != exact[i] {
			a.differing++
		}
		a.worst = max(a.worst, len(admitted))
		if i%max(1, len(arrivals)/50) == 0 {
			a.bytes = max(a.bytes, c.bytes())
		}
	}
	a.asked = len(arrivals)
	return a, verdicts
}

// table measures limits of N a minute, and checks what is promised.
func table(t *testing.T, n, windows int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### N = %d\n\n| |", n)
	for _, tr := range traffics {
		fmt.Fprintf(&b, " %s |", tr.name)
	}
	b.WriteString(" bytes |\n|---|" + strings.Repeat("---|", len(traffics)+1) + "\n")
	exact := make([][]bool, len(traffics))
	arrivals := make([][]window.Instant, len(traffics))
	for i, tr := range traffics {
		arrivals[i] = tr.make(n, windows)
		_, exact[i] = measure(ofWeir(t, n, descriptors.SlidingLog), n, arrivals[i], nil)
	}
	var rows []*row
	for _, of := range counters {
		var cells strings.Builder
		most := 0
		for i, tr := range traffics {
			a, _ := measure(of.make(t, n), n, arrivals[i], exact[i])
			most = max(most, a.bytes)
			share := func(part int) string { return fmt.Sprintf("%.2g", 100*float64(part)/float64(a.asked)) }
			fmt.Fprintf(&cells, " %.3g · %s · %s |", float64(a.worst)/float64(n), share(a.early), share(a.differing))
			checkPromises(t, of.name, tr.name, n, a)
		}
		i := slices.IndexFunc(rows, func(r *row) bool { return r.cells == cells.String() })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &row{cells: cells.String()})
		}
		rows[i].names = append(rows[i].names, of.name)
		rows[i].bytes = append(rows[i].bytes, fmt.Sprint(most))
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |%s %s |\n", strings.Join(r.names, "; "), r.cells, strings.Join(slices.Compact(r.bytes), "; "))
	}
	return b.String()
}

// row holds the algorithms that decide alike.
type row struct {
	names, bytes []string
	cells        string
}

// checkPromises holds what was measured against what README.md and the textbooks say.
func checkPromises(t *testing.T, name, traffic string, n int, a accuracy) {
	t.Helper()
	rolling := strings.HasPrefix(name, "with leases") || strings.Contains(name, "sliding")
	switch {
	case rolling && a.worst > n, a.worst > 2*n:
		t.Errorf("%s of %d at %s admits %d in some window", name, n, traffic, a.worst)
	case strings.Contains(name, "log") && a.early+a.differing > 0:
		t.Errorf("%s of %d at %s: %+v; want it exact", name, n, traffic, a)
	case traffic == "boundary" && strings.Contains(name, "clock") != (a.worst == 2*n) && name != "`fixed_window`":
		t.Errorf("%s of %d admits %d across a boundary", name, n, a.worst)
	case traffic == "boundary" && name == "`fixed_window`" && a.worst != 2*n:
		t.Errorf("%s of %d admits %d across a boundary, want twice as many", name, n, a.worst)
	case traffic == "3 N" && n >= 500 && (name == "GCRA" || strings.Contains(name, "token")) && a.worst < 13*n/10:
		t.Errorf("%s of %d admits %d at most, want more than it promises in the long run", name, n, a.worst)
	}
}

// TestAccuracyIsAsDocumented measures what ACCURACY.md says. In its short form N is 10.
func TestAccuracyIsAsDocumented(t *testing.T) {
	const document = "ACCURACY.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), "\n### N = ")
	if !found {
		t.Fatalf("%s has no table", document)
	}
	var all strings.Builder
	// With the race detector the largest limit takes a quarter of an hour, and shows nothing more.
	for _, size := range []struct{ n, windows int }{{10, 1000}, {500, 100}, {100_000, 6}} {
		if testing.Short() && size.n > 10 || process.Raced() && size.n > 500 {
			break
		}
		measured := table(t, size.n, size.windows)
		all.WriteString(measured)
		if !*writeAccuracy && !strings.Contains(string(text), measured) {
			t.Errorf("%s does not have what is measured: run make accuracy\n%s", document, measured)
		}
	}
	if *writeAccuracy {
		if err := os.WriteFile(document, []byte(before+all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
