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

// Inspected is a store whose counters can be looked at, on a clock of the test.
type Inspected struct {
	backend.Counter
	backend.Inspector
	SetTime func(window.Instant)
}

// inspectedAt is half past noon and 33 seconds.
var inspectedAt = time.Date(2026, 11, 21, 12, 30, 33, 0, time.UTC)

// Inspection holds what an operator is promised: the buckets of each level, what a grant and a reset leave, and that
// looking changes nothing. It closes the store.
func Inspection(t *testing.T, s Inspected) {
	t.Helper()
	i := &inspection{Inspected: s, key: []byte("4:shop4:user3:ann"), limits: []descriptors.Limit{
		NewLimit(t, 10, descriptors.Minute, 1, descriptors.SlidingWindow, 0),
		NewLimit(t, 500, descriptors.Hour, 1, descriptors.SlidingWindow, 0),
		NewLimit(t, 600, descriptors.Hour, 1, descriptors.FixedWindow, 0),
	}}
	t.Run("a key that nobody has asked about holds nothing", func(t *testing.T) {
		i.at(0)
		i.want(t, 0, 0, [][]uint64{{}, {}})
		i.want(t, 1, 0, [][]uint64{{}, {}})
		i.want(t, 2, 0, [][]uint64{{}})
	})
	t.Run("each level holds all hits", func(t *testing.T) { i.levels(t) })
	t.Run("a grant takes the newest hits", func(t *testing.T) {
		i.do(t, backend.Refund, 4)
		i.want(t, 0, 26*time.Second, [][]uint64{{2}, {2}})
		i.want(t, 1, 59*time.Minute+24*time.Second, [][]uint64{{3, 2}, {5}})
		i.want(t, 2, 28*time.Minute+24*time.Second, [][]uint64{{5}})
	})
	t.Run("a reset forgets all", func(t *testing.T) {
		for range 2 { // a key that is missing is no error
			if err := i.Reset(t.Context(), i.key); err != nil {
				t.Fatal(err)
			}
			i.want(t, 0, 0, [][]uint64{{}, {}})
			i.want(t, 1, 0, [][]uint64{{}, {}})
		}
	})
	t.Run("what is listed is what counts", func(t *testing.T) { i.walk(t) })
	counts := i.limits
	i.limits = []descriptors.Limit{
		NewLimit(t, 10, descriptors.Minute, 1, descriptors.SlidingLog, 0),
		NewLimit(t, 500, descriptors.Hour, 1, descriptors.SlidingLog, 0),
	}
	t.Run("a log lists its instants", func(t *testing.T) { i.instants(t) })
	t.Run("what a log lists is what counts", func(t *testing.T) { i.walk(t) })
	t.Run("a long log lists the newest", func(t *testing.T) { i.long(t) })
	logs := i.limits
	i.limits = []descriptors.Limit{
		NewLimit(t, 10, descriptors.Minute, 1, descriptors.TokenBucket, 0),
		NewLimit(t, 500, descriptors.Hour, 1, descriptors.TokenBucket, 0),
		counts[2],
	}
	t.Run("a bucket shows its level", func(t *testing.T) { i.bucket(t) })
	t.Run("what a bucket shows is what counts", func(t *testing.T) { i.walk(t) })
	i.limits = logs
	t.Run("a reset forgets logs and counts", func(t *testing.T) { i.resetAll(t, counts) })
	if err := i.Reset(t.Context(), i.key); err != nil {
		t.Fatal(err)
	}
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

type inspection struct {
	Inspected
	key    []byte
	limits []descriptors.Limit
	now    time.Time
}

func (i *inspection) at(since time.Duration) {
	i.now = inspectedAt.Add(since)
	i.SetTime(window.At(i.now))
}

func (i *inspection) do(t *testing.T, op backend.Op, hits uint64) {
	t.Helper()
	var out [1]backend.Decision
	if err := backend.DecideAll(t.Context(), i, []backend.Check{{Key: i.key, Limits: i.limits, Op: op, Hits: hits}}, out[:]); err != nil {
		t.Fatal(err)
	}
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

// levels counts hits at 12:30:33, 12:31:01 and 12:31:05, and looks at them until 12:31:36.
func (i *inspection) levels(t *testing.T) {
	i.at(0)
	i.do(t, backend.Count, 3)
	i.at(28 * time.Second)
	i.do(t, backend.Count, 2)
	i.at(32 * time.Second)
	i.do(t, backend.Count, 4)
	for range 2 { // looking changes nothing
		i.want(t, 0, 29*time.Second, [][]uint64{{3, 2, 4}, {3, 6}})
		i.want(t, 1, 59*time.Minute+55*time.Second, [][]uint64{{3, 6}, {9}})
		i.want(t, 2, 28*time.Minute+55*time.Second, [][]uint64{{9}})
	}
	minutes := i.inspect(t)[0].Levels[1]
	if got, want := minutes[0].Begin, time.Date(2026, 11, 21, 12, 30, 0, 0, time.UTC); !got.Equal(want) || minutes[0].Width != time.Minute {
		t.Errorf("the first bucket of a minute begins at %v and lasts %v, want %v and a minute", got, minutes[0].Width, want)
	}
	i.at(60*time.Second + 999*time.Millisecond)
	i.want(t, 0, time.Millisecond, [][]uint64{{3, 2, 4}, {3, 6}}) // the oldest second counts whole until all of it is out
	i.at(61 * time.Second)
	i.want(t, 0, 28*time.Second, [][]uint64{{2, 4}, {6}})
	i.at(63 * time.Second)
}

// instants counts hits at three instants, and looks at them until the first leaves.
func (i *inspection) instants(t *testing.T) {
	i.at(0)
	i.want(t, 0, 0, [][]uint64{{}})
	i.do(t, backend.Count, 3)
	i.at(28*time.Second + time.Microsecond)
	i.do(t, backend.Count, 2)
	i.at(32 * time.Second)
	i.do(t, backend.Count, 4)
	for range 2 { // looking changes nothing
		i.want(t, 0, 28*time.Second, [][]uint64{{3, 2, 4}})
		i.want(t, 1, 59*time.Minute+28*time.Second, [][]uint64{{3, 2, 4}})
	}
	second := i.inspect(t)[0].Levels[0][1]
	if want := inspectedAt.Add(28*time.Second + time.Microsecond); !second.Begin.Equal(want) || second.Width != time.Microsecond {
		t.Errorf("the second instant is %v of %v, want %v: a log is exact to the microsecond", second.Begin, second.Width, want)
	}
	i.at(60*time.Second - time.Microsecond)
	i.want(t, 0, time.Microsecond, [][]uint64{{3, 2, 4}})
	i.at(60 * time.Second)
	i.want(t, 0, 28*time.Second+time.Microsecond, [][]uint64{{2, 4}})
	i.do(t, backend.Refund, 5) // the newest four, and one of two
	i.want(t, 0, 28*time.Second+time.Microsecond, [][]uint64{{1}})
	i.want(t, 1, 59*time.Minute, [][]uint64{{3, 1}})
}

// bucket counts hits at two instants, and looks at them while they leak.
func (i *inspection) bucket(t *testing.T) {
	show := func(hits uint64, reset time.Duration) {
		t.Helper()
		if c := i.inspect(t)[0]; c.Hits != hits || c.ResetIn != reset || len(c.Levels) != 0 {
			t.Errorf("at %s %v shows %d hits, the next leaks in %v, and %d levels; want %d, in %v, and none",
				i.now.Format(time.TimeOnly), c.Limit, c.Hits, c.ResetIn, len(c.Levels), hits, reset)
		}
	}
	if err := i.Reset(t.Context(), i.key); err != nil {
		t.Fatal(err)
	}
	i.at(0)
	show(0, 0)
	i.do(t, backend.Count, 3) // one leaks every 6 s
	for range 2 {             // looking changes nothing
		i.at(8 * time.Second)
		show(2, 4*time.Second)
		i.at(-time.Hour)
		show(3, 6*time.Second)
	}
	i.at(8 * time.Second)
	i.do(t, backend.Count, 4)
	show(6, 4*time.Second)
	i.do(t, backend.Refund, 5)
	show(1, 4*time.Second)
	i.at(12 * time.Second)
	show(0, 0)
}

// long counts more hits than are listed of a log, two at each instant.
func (i *inspection) long(t *testing.T) {
	const unlisted = 50
	limits := i.limits
	defer func() { i.limits = limits }()
	i.limits = []descriptors.Limit{NewLimit(t, 1e6, descriptors.Day, 1, descriptors.SlidingLog, 0)}
	for n := range backend.MaxInstants + unlisted {
		i.at(time.Duration(n) * time.Microsecond)
		i.do(t, backend.Count, 2)
	}
	c := i.inspect(t)[0]
	if all := uint64(2 * (backend.MaxInstants + unlisted)); c.Hits != all || c.Earlier != 2*unlisted {
		t.Errorf("a log of %d hits shows %d, %d of them earlier than what is listed; want %d", all, c.Hits, c.Earlier, 2*unlisted)
	}
	list := c.Levels[0]
	if len(list) != backend.MaxInstants || !list[0].Begin.Equal(inspectedAt.Add(unlisted*time.Microsecond)) {
		t.Fatalf("%d instants from %v on are listed, want the newest %d", len(list), list[0].Begin, backend.MaxInstants)
	}
	if want := inspectedAt.Add(24 * time.Hour).Sub(i.now); c.ResetIn != want {
		t.Errorf("it resets in %v, want %v: when the oldest leaves, which is not listed", c.ResetIn, want)
	}
}

// resetAll counts by logs and otherwise, and forgets both at once.
func (i *inspection) resetAll(t *testing.T, counts []descriptors.Limit) {
	logs := i.limits
	defer func() { i.limits = logs }()
	for _, i.limits = range [][]descriptors.Limit{logs, counts} {
		i.do(t, backend.Count, 1)
	}
	if err := i.Reset(t.Context(), i.key); err != nil {
		t.Fatal(err)
	}
	for _, i.limits = range [][]descriptors.Limit{logs, counts} {
		for _, c := range i.inspect(t) {
			if c.Hits != 0 {
				t.Errorf("after a reset %v (%v) shows %d hits; an operator wants the key forgotten, whatever counted it", c.Limit,
					c.Limit.Algorithm, c.Hits)
			}
		}
	}
}

// want holds limit n to hits on each level, and to when the oldest leaves.
func (i *inspection) want(t *testing.T, n int, reset time.Duration, levels [][]uint64) {
	t.Helper()
	c := i.inspect(t)[n]
	got := make([][]uint64, len(c.Levels))
	var sum uint64
	for level, buckets := range c.Levels {
		got[level] = []uint64{}
		for _, b := range buckets {
			got[level] = append(got[level], b.Hits)
			if level == 0 {
				sum += b.Hits
			}
		}
	}
	if !reflect.DeepEqual(got, levels) || c.Hits != sum || c.ResetIn != reset {
		t.Errorf("at %s, %v (%v) shows %d hits %v, reset in %v; want %v, reset in %v", i.now.Format(time.TimeOnly),
			c.Limit, c.Limit.Algorithm, c.Hits, got, c.ResetIn, levels, reset)
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
		for n := range counts {
			i.agree(t, step, &counts[n])
		}
		if t.Failed() {
			return
		}
	}
}

// agree holds a limit's count against a look at it, and each level against the finest.
func (i *inspection) agree(t *testing.T, step int, c *backend.LimitCount) {
	t.Helper()
	var out [1]backend.Decision
	look := []backend.Check{{Key: i.key, Limits: []descriptors.Limit{c.Limit}, Op: backend.Look}}
	if err := backend.DecideAll(t.Context(), i, look, out[:]); err != nil {
		t.Fatal(err)
	}
	if out[0].Before != c.Hits || out[0].Remaining != c.Remaining() {
		t.Errorf("step %d: %v shows %d hits, %d remaining; a look says %d and %d", step, c.Limit, c.Hits, c.Remaining(),
			out[0].Before, out[0].Remaining)
	}
	reset := out[0].ResetIn
	if c.Hits == 0 {
		reset = 0 // nothing is listed that could leave, though a look tells when an empty fixed window ends
	}
	if out[0].Allowed && c.ResetIn != reset {
		t.Errorf("step %d: %v resets in %v, want %v; a look says %v", step, c.Limit, c.ResetIn, reset, out[0].ResetIn)
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
