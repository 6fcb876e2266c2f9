package backendtest

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// Inspected is a store whose counters can be looked at.
type Inspected interface {
	backend.Counter
	backend.Inspector
}

// inspectedAt is half past noon and 33 seconds.
var inspectedAt = time.Date(2026, 11, 21, 12, 30, 33, 0, time.UTC)

// Inspection holds what an operator is promised: the buckets of each level, what a grant and a reset leave, and that
// looking changes nothing. It closes the store.
func Inspection(t *testing.T, s Inspected, setTime func(window.Instant)) {
	t.Helper()
	i := &inspection{Inspected: s, setTime: setTime, key: []byte("4:shop4:user3:ann")}
	limit := func(n uint64, u descriptors.Unit, a descriptors.Algorithm) descriptors.Limit {
		return NewLimit(t, n, u, 1, a, 0)
	}
	for _, a := range []descriptors.Algorithm{descriptors.SlidingWindow, descriptors.SlidingLog, descriptors.TokenBucket} {
		i.limits = []descriptors.Limit{limit(10, descriptors.Minute, a), limit(500, descriptors.Hour, a)}
		if a != descriptors.SlidingLog {
			i.limits = append(i.limits, limit(600, descriptors.Hour, descriptors.FixedWindow))
		}
		t.Run(a.String(), func(t *testing.T) {
			if a == descriptors.SlidingWindow {
				i.live(t)
			}
			t.Run("what is listed is what counts", func(t *testing.T) { i.walk(t) })
			t.Run("a reset forgets all", func(t *testing.T) { i.resets(t) })
		})
	}
	for _, a := range descriptors.Algorithms() {
		t.Run("a changed "+a.String(), func(t *testing.T) { i.changed(t, a) })
	}
	t.Run("a reset forgets logs and counts", func(t *testing.T) {
		logs := []descriptors.Limit{limit(10, descriptors.Minute, descriptors.SlidingLog)}
		counts := []descriptors.Limit{limit(10, descriptors.Minute, descriptors.TokenBucket)}
		for _, i.limits = range [][]descriptors.Limit{logs, counts} {
			i.do(t, backend.Count, 1)
		}
		i.resets(t)
		i.limits = logs
		i.sees(t, seen{})
	})
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if err := i.Reset(t.Context(), i.key); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a closed store answers a reset with %v, want ErrClosed", err)
	}
	if _, err := i.Inspect(t.Context(), i.key, i.limits); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a closed store answers a look with %v, want ErrClosed", err)
	}
}

// moment is what happens to a key so long after inspectedAt, and what an operator sees then of the first limits.
type moment struct {
	since time.Duration
	op    backend.Op
	hits  uint64 // none: nothing happens
	sees  []seen
}

// seen is what counts of a limit: the hits of each bucket by level.
type seen struct {
	reset  time.Duration // until the oldest leaves
	levels [][]uint64
}

const second, minute, refund = time.Second, time.Minute, backend.Refund

// Hits at 12:30:33, 12:31:01 and 12:31:05, of which a grant takes the newest. The oldest second counts whole until all
// of it is out.
var moments = []moment{
	{0, 0, 0, []seen{{0, [][]uint64{{}, {}}}, {0, [][]uint64{{}, {}}}, {0, [][]uint64{{}}}}},
	{0, backend.Count, 3, nil},
	{28 * second, backend.Count, 2, nil},
	{32 * second, backend.Count, 4, []seen{
		{29 * second, [][]uint64{{3, 2, 4}, {3, 6}}},
		{59*minute + 55*second, [][]uint64{{3, 6}, {9}}},
		{28*minute + 55*second, [][]uint64{{9}}},
	}},
	{61*second - time.Millisecond, 0, 0, []seen{{time.Millisecond, [][]uint64{{3, 2, 4}, {3, 6}}}}},
	{61 * second, 0, 0, []seen{{28 * second, [][]uint64{{2, 4}, {6}}}}},
	{63 * second, refund, 4, []seen{
		{26 * second, [][]uint64{{2}, {2}}},
		{59*minute + 24*second, [][]uint64{{3, 2}, {5}}},
		{28*minute + 24*second, [][]uint64{{5}}},
	}},
}

type inspection struct {
	Inspected
	setTime func(window.Instant)
	key     []byte
	limits  []descriptors.Limit
	now     time.Time
}

func (i *inspection) at(since time.Duration) {
	i.now = inspectedAt.Add(since)
	i.setTime(window.At(i.now))
}

func (i *inspection) do(t *testing.T, op backend.Op, hits uint64) {
	t.Helper()
	Ask(t, i, backend.Check{Key: i.key, Limits: i.limits, Op: op, Hits: hits})
}

func (i *inspection) inspect(t *testing.T) []backend.LimitCount {
	t.Helper()
	counts, err := i.Inspect(t.Context(), i.key, i.limits)
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) != len(i.limits) {
		t.Fatalf("%d limits are told of, want %d", len(counts), len(i.limits))
	}
	return counts
}

// live lets moments pass, and looks at each of them.
func (i *inspection) live(t *testing.T) {
	for _, m := range moments {
		i.at(m.since)
		if m.hits > 0 {
			i.do(t, m.op, m.hits)
		}
		i.sees(t, m.sees...)
	}
}

// sees holds what is shown of the first limits against what is wanted.
func (i *inspection) sees(t *testing.T, want ...seen) {
	t.Helper()
	counts := i.inspect(t)
	for n, w := range want {
		c, sum := &counts[n], uint64(0)
		var got [][]uint64
		for level, buckets := range c.Levels {
			got = append(got, []uint64{})
			for _, b := range buckets {
				got[level] = append(got[level], b.Hits)
				if level == 0 {
					sum += b.Hits
				}
				if !b.Begin.Truncate(b.Width).Equal(b.Begin) || b.Begin.After(i.now) {
					t.Errorf("at %v a bucket of level %d begins at %v and lasts %v", i.now, level, b.Begin, b.Width)
				}
			}
		}
		if !reflect.DeepEqual(got, w.levels) || c.Hits != sum || c.ResetIn != w.reset {
			t.Errorf("at %s, %v (%v) shows %d hits %v, reset in %v; want %+v", i.now.Format(time.TimeOnly), c.Limit,
				c.Limit.Algorithm, c.Hits, got, c.ResetIn, w)
		}
	}
}

// resets resets the key; that it is missing then is no error.
func (i *inspection) resets(t *testing.T) {
	for range 2 {
		if err := i.Reset(t.Context(), i.key); err != nil {
			t.Fatal(err)
		}
		for _, c := range i.inspect(t) {
			if c.Hits != 0 || c.ResetIn != 0 {
				t.Errorf("after a reset %v (%v) shows %d hits; want the key forgotten, whatever counted it", c.Limit,
					c.Limit.Algorithm, c.Hits)
			}
		}
	}
}

// walk counts and refunds at random, with steps back of the clock, and holds what is listed against a look.
func (i *inspection) walk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	since := time.Hour
	for step := range 400 {
		since += time.Duration(random.Int64N(int64(40 * time.Second)))
		if random.IntN(20) == 0 {
			since -= 50 * time.Second
		}
		i.at(since)
		i.do(t, []backend.Op{backend.Count, backend.Count, backend.Refund}[random.IntN(3)], random.Uint64N(4))
		since += time.Duration(random.Int64N(int64(20 * time.Second)))
		i.at(since)
		counts := i.inspect(t)
		if again := i.inspect(t); !reflect.DeepEqual(again, counts) {
			t.Errorf("step %d: at once after %v an operator sees %v: looking changes something", step, counts, again)
		}
		for n := range counts {
			i.agree(t, step, &counts[n])
		}
		if t.Failed() {
			return
		}
	}
}

// changed counts under a limit, and looks under others that differ in their requests: what is counted stays, and what is
// shown of it is what the model says, also where no more fits.
func (i *inspection) changed(t *testing.T, a descriptors.Algorithm) {
	i.resets(t)
	since := 24 * time.Hour
	i.limits = []descriptors.Limit{NewLimit(t, 1000, descriptors.Hour, 1, a, 0)}
	m := newModel(rule{limits: i.limits})
	for range 3 {
		since += 5 * time.Second
		i.at(since)
		i.do(t, backend.Count, 37)
		m.decide(backend.Count, 37, window.At(i.now))
	}
	for _, n := range []uint64{5, 2000, 0, 111, 60} {
		since += 13 * time.Second
		i.at(since)
		i.limits = []descriptors.Limit{NewLimit(t, n, descriptors.Hour, 1, a, 0)}
		shown := i.inspect(t)[0]
		m.follow(i.limits)
		look, now := m.decide(backend.Look, 0, window.At(i.now)), window.At(i.now)
		want := backend.LimitCount{Limit: i.limits[0], Hits: m.counts[0].Sum(now)}
		if want.Hits > 0 {
			want.ResetIn = span(now, m.counts[0].Until(now, want.Hits-1))
		}
		if shown.Hits != want.Hits || shown.Remaining() != want.Remaining() || shown.ResetIn != want.ResetIn {
			t.Errorf("changed to %v: %d hits, %d remaining, reset in %v are shown; want %d, %d and %v, when the oldest hit leaves", want.Limit,
				shown.Hits, shown.Remaining(), shown.ResetIn, want.Hits, want.Remaining(), want.ResetIn)
		}
		if got := Ask(t, i, backend.Check{Key: i.key, Limits: i.limits, Op: backend.Look}); got != look {
			t.Errorf("changed to %v: a look says\n%+v, want\n%+v", want.Limit, got, look)
		}
	}
}

// agree holds a limit's count against a look at it, and each level against the finest.
func (i *inspection) agree(t *testing.T, step int, c *backend.LimitCount) {
	t.Helper()
	look := Ask(t, i, backend.Check{Key: i.key, Limits: []descriptors.Limit{c.Limit}, Op: backend.Look})
	if look.Before != c.Hits || look.Remaining != c.Remaining() {
		t.Errorf("step %d: %v shows %d hits, %d remaining; a look says %+v", step, c.Limit, c.Hits, c.Remaining(), look)
	}
	reset := look.ResetIn
	if c.Hits == 0 {
		reset = 0 // nothing is listed that could leave, though a look tells when an empty fixed window ends
	}
	if look.Allowed && c.ResetIn != reset {
		t.Errorf("step %d: %v resets in %v, want %v; a look says %+v", step, c.Limit, c.ResetIn, reset, look)
	}
	for level, buckets := range c.Levels {
		var sum uint64
		for n, b := range buckets {
			sum += b.Hits
			if b.Hits == 0 || n > 0 && !buckets[n-1].Begin.Before(b.Begin) {
				t.Errorf("step %d: level %d of %v is not in order or holds an empty bucket: %v", step, level, c.Limit, buckets)
			}
		}
		if sum != c.Hits {
			t.Errorf("step %d: level %d of %v holds %d hits of %d: %v", step, level, c.Limit, sum, c.Hits, buckets)
		}
	}
}
