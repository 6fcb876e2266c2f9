package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// Lists is an empty store whose keys can be listed, on a clock of the test.
type Lists struct {
	backend.Counter
	backend.Inspector
	backend.Lister
	SetTime func(window.Instant)
	// Whole means that the store looks at all its keys, whatever the time.
	Whole bool
	// Key, if not nil, makes the keys of the suite, and their limits, which count by fixed windows.
	Key func(i int) (key []byte, limits []descriptors.Limit)
}

// listedKeys is how many keys the suite makes: several pages on each server.
const listedKeys = 1200

// Listing holds what whoever lists keys is promised: each key of a store at rest is shown once, with what it holds or a
// bound of it; what is passed over is not shown; a listing ends with its time or its context, and the next goes on. It
// closes the store.
func Listing(t *testing.T, s Lists) {
	t.Helper()
	l := &lists{Lists: s, index: make(map[string]int)}
	for i := range listedKeys {
		key, limits := l.keyOf(t, i)
		l.keys, l.limits, l.index[string(key)] = append(l.keys, key), append(l.limits, limits), i
	}
	t.Run("an empty store shows nothing", func(t *testing.T) {
		l.at(0)
		shown, listed := l.list(t, time.Minute, nil)
		if len(shown) > 0 || !listed.Complete {
			t.Errorf("%d keys of an empty store are shown, %+v; want none, and that this is all", len(shown), listed)
		}
	})
	l.fill(t)
	t.Run("each key is shown once, and what it holds", func(t *testing.T) { l.all(t) })
	t.Run("what is passed over is not shown", func(t *testing.T) {
		shown, _ := l.list(t, time.Minute, func(i int) bool { return i%3 == 0 })
		if len(shown) != listedKeys/3 {
			t.Errorf("%d keys are shown, want the %d that have limits", len(shown), listedKeys/3)
		}
	})
	t.Run("a glance is what counts, or a bound of it", func(t *testing.T) { l.walk(t) })
	if !l.Whole {
		t.Run("a listing ends with its time, and the next goes on", func(t *testing.T) { l.parts(t) })
	}
	t.Run("a listing ends with its context", func(t *testing.T) { l.canceled(t) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ask := backend.Listing{For: time.Minute, Limits: func([]byte) []descriptors.Limit { return nil }}
	if _, err := s.List(t.Context(), ask); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a closed store is listed with %v, want ErrClosed", err)
	}
}

type lists struct {
	Lists
	now    time.Time
	keys   [][]byte
	limits [][]descriptors.Limit // of each key
	index  map[string]int        // of keys
}

func (l *lists) at(since time.Duration) {
	l.now = inspectedAt.Add(since)
	l.SetTime(window.At(l.now))
}

// keyOf returns the i-th key, and its limits: of each algorithm in turn, of one or two. Their windows are long, since a
// store ends keys by a clock that is not the test's, and a machine can be slow.
func (l *lists) keyOf(t *testing.T, i int) ([]byte, []descriptors.Limit) {
	t.Helper()
	if l.Key != nil {
		return l.Key(i)
	}
	a := algorithms[i%len(algorithms)]
	limits := []descriptors.Limit{NewLimit(t, 20, descriptors.Day, 1, a, 0)}
	if i%8 >= 4 {
		limits = append(limits, NewLimit(t, 500, descriptors.Week, 1, a, 0))
	}
	return fmt.Appendf(nil, "4:shop4:user%d:%d", len(fmt.Sprint(i)), i), limits
}

// fill counts i%7+1 hits of the i-th key.
func (l *lists) fill(t *testing.T) {
	t.Helper()
	l.at(0)
	var checks [64]backend.Check
	var out [len(checks)]backend.Decision
	for from := 0; from < listedKeys; from += len(checks) {
		part := checks[:min(len(checks), listedKeys-from)]
		for n := range part {
			part[n] = backend.Check{Key: l.keys[from+n], Limits: l.limits[from+n], Op: backend.Count, Hits: uint64((from+n)%7 + 1)}
		}
		if err := backend.DecideAll(t.Context(), l, part, out[:len(part)]); err != nil {
			t.Fatal(err)
		}
	}
}

func (l *lists) count(t *testing.T, i int, op backend.Op, hits uint64) {
	t.Helper()
	var out [1]backend.Decision
	check := []backend.Check{{Key: l.keys[i], Limits: l.limits[i], Op: op, Hits: hits}}
	if err := backend.DecideAll(t.Context(), l, check, out[:]); err != nil {
		t.Fatal(err)
	}
}

// list returns what is shown of each key, and how often. want says which keys have limits; nil: all.
func (l *lists) list(t *testing.T, length time.Duration, want func(i int) bool) (map[int][][]backend.Glance, backend.Listed) {
	t.Helper()
	shown := make(map[int][][]backend.Glance)
	listed, err := l.List(t.Context(), backend.Listing{For: length,
		Limits: func(key []byte) []descriptors.Limit {
			i, known := l.index[string(key)]
			if !known || want != nil && !want(i) {
				return nil
			}
			return l.limits[i]
		},
		Visit: func(key []byte, limits []descriptors.Limit, holds []backend.Glance) {
			i, known := l.index[string(key)]
			if !known || len(holds) != len(limits) {
				t.Errorf("%q is shown with %d of %d limits; want one of the keys that were counted, and all", key, len(holds), len(limits))
				return
			}
			shown[i] = append(shown[i], append([]backend.Glance(nil), holds...))
		}})
	if err != nil {
		t.Fatal(err)
	}
	return shown, listed
}

func (l *lists) all(t *testing.T) {
	shown, listed := l.list(t, time.Minute, nil)
	if !listed.Complete || listed.Seen < listedKeys || listed.Held < listedKeys || listed.Unread > 0 {
		t.Errorf("%+v; want all %d keys seen", listed, listedKeys)
	}
	for i := range listedKeys {
		if len(shown[i]) != 1 {
			t.Errorf("key %d is shown %d times, want once", i, len(shown[i]))
			continue
		}
		for n, glance := range shown[i][0] {
			if glance.Hits != uint64(i%7+1) || !glance.Exact || glance.ResetIn <= 0 {
				t.Errorf("limit %d of key %d is shown as %+v; want exactly %d hits, which leave later", n, i, glance, i%7+1)
			}
		}
	}
}

// walk counts and refunds at random, with steps back of the clock, and holds each glance against what Inspect reads.
func (l *lists) walk(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	few := func(i int) bool { return i < 16 }
	since, exact, bounds := 60*24*time.Hour, 0, 0
	for step := range 60 {
		for range random.IntN(40) {
			since += time.Duration(random.Int64N(int64(48 * time.Minute)))
			if random.IntN(40) == 0 {
				since -= 2 * time.Hour
			}
			l.at(since)
			i := random.IntN(16)
			if random.IntN(3) > 0 { // one of a window and one of a log, so often that these are long
				i = 2 * (i % 2)
			}
			l.count(t, i, []backend.Op{backend.Count, backend.Count, backend.Count, backend.Refund}[random.IntN(4)], random.Uint64N(3))
		}
		since += time.Duration(random.Int64N(int64(16 * time.Hour)))
		l.at(since)
		shown, _ := l.list(t, time.Minute, few)
		for i, times := range shown {
			e, b := l.agree(t, step, i, times)
			exact, bounds = exact+e, bounds+b
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d glances were exact, %d were bounds", exact, bounds)
	if exact == 0 {
		t.Error("no glance was exact; want most of them to be")
	}
}

// agree holds the glances at a key against what Inspect reads.
func (l *lists) agree(t *testing.T, step, i int, times [][]backend.Glance) (exact, bounds int) {
	t.Helper()
	counts, err := l.Inspect(t.Context(), l.keys[i], l.limits[i])
	if err != nil || len(times) != 1 {
		t.Fatalf("key %d is shown %d times (%v), want once", i, len(times), err)
	}
	for n, glance := range times[0] {
		switch c := counts[n]; {
		case glance.Exact && glance.Hits == c.Hits && glance.ResetIn == c.ResetIn:
			exact++
		case !glance.Exact && glance.Hits >= c.Hits:
			bounds++
		default:
			t.Errorf("step %d: a glance at %v (%v) of key %d shows %+v; %d hits count, and reset in %v", step, c.Limit,
				c.Limit.Algorithm, i, glance, c.Hits, c.ResetIn)
		}
	}
	return exact, bounds
}

// parts lists for as short a time as possible, until all keys were shown.
func (l *lists) parts(t *testing.T) {
	l.fill(t)
	shown, held := make(map[int]bool), uint64(0)
	for n := 0; len(shown) < listedKeys; n++ {
		part, listed := l.list(t, time.Nanosecond, nil)
		for i := range part {
			shown[i] = true
		}
		held = max(held, listed.Held)
		if n == 0 && (listed.Complete || len(part) >= listedKeys) {
			t.Errorf("%d keys of %d are shown in a nanosecond, %+v; want a part of them, and that it is said", len(part), listedKeys, listed)
		}
		if listed.Seen > listed.Held {
			t.Errorf("%+v: more was seen than there is; the share that is told would be above one", listed)
		}
		if n > listedKeys {
			t.Fatalf("after %d listings %d keys of %d were shown; want each to go on where the last one ended", n, len(shown), listedKeys)
		}
	}
	if held < listedKeys {
		t.Errorf("%d keys are said to be there, want %d", held, listedKeys)
	}
	l.list(t, time.Nanosecond, nil)
	whole, listed := l.list(t, time.Minute, nil) // begins where that ended, and comes to it again
	for i := range listedKeys {
		if len(whole[i]) != 1 {
			t.Fatalf("key %d is shown %d times by a listing that began in the middle, %+v; want once: else keys that are over count twice",
				i, len(whole[i]), listed)
		}
	}
	if !listed.Complete || listed.Seen != listed.Held {
		t.Errorf("%+v; want all keys seen, as there was time", listed)
	}
}

func (l *lists) canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	_, err := l.List(ctx, backend.Listing{For: time.Hour, Visit: func([]byte, []descriptors.Limit, []backend.Glance) {},
		Limits: func([]byte) []descriptors.Limit {
			seen++
			cancel()
			return nil
		}})
	if !errors.Is(err, context.Canceled) || seen == 0 || seen >= listedKeys {
		t.Errorf("a listing that was canceled at its first key looked at %d keys of %d, and ended with %v; want it to end soon, and to say so",
			seen, listedKeys, err)
	}
}
