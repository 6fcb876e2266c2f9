package descriptors

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// limit is a limit that must be right.
func limit(t testing.TB, requests uint64, u Unit, multiplier uint32, a Algorithm, precision time.Duration) Limit {
	t.Helper()
	l, err := NewLimit(requests, u, multiplier, a, precision)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSlidingWindowLengthDecidesItsLevels(t *testing.T) {
	const ms, s, m, h = time.Millisecond, time.Second, time.Minute, time.Hour
	tests := []struct {
		unit       Unit
		multiplier uint32
		precision  time.Duration // 0: the default
		want       []time.Duration
	}{
		{Second, 10, 0, []time.Duration{50 * ms, s}},
		{Second, 11, 0, []time.Duration{s, m}},
		{Minute, 10, 0, []time.Duration{s, m}},
		{Second, 601, 0, []time.Duration{m, h}},
		{Day, 2, 0, []time.Duration{m, h}},
		{Second, 2*86400 + 1, 0, []time.Duration{h, day}},
		{Month, 2, 0, []time.Duration{h, day}},
		{Day, 61, 0, []time.Duration{day}},
		{Year, 273, 0, []time.Duration{day}},

		{Second, 10, s, []time.Duration{s}},
		{Minute, 1, 50 * ms, []time.Duration{50 * ms, s, m}},
		{Day, 1, s, []time.Duration{s, m, h}},
		{Second, 100_000, s, []time.Duration{s, m, h}},
		{Year, 1, h, []time.Duration{h, day}},
		{Day, 2, day, []time.Duration{day}},
	}
	for _, test := range tests {
		l := limit(t, 1, test.unit, test.multiplier, SlidingWindow, test.precision)
		if got := l.Levels(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%d %s at precision %v: got levels %v, want %v", test.multiplier, test.unit, test.precision, got, test.want)
		}
		if l.Precision != test.want[0] {
			t.Errorf("%d %s: the precision is %v, want that of the finest level, %v", test.multiplier, test.unit, l.Precision,
				test.want[0])
		}
		if want := time.Duration(test.multiplier) * test.unit.Duration(); l.Window != want {
			t.Errorf("%d %s: the window is %v, want %v", test.multiplier, test.unit, l.Window, want)
		}
	}
}

func TestPrecisionAndBurstNeedTheirAlgorithm(t *testing.T) {
	for algorithm, want := range map[Algorithm]string{FixedWindow: "3h", SlidingLog: "1µs", TokenBucket: ""} {
		l := limit(t, 5, Hour, 3, algorithm, 0)
		got := strings.Join(l.LevelNames(), " ")
		if l.Precision != 0 || got != want || (l.Burst != 0) != (algorithm == TokenBucket) {
			t.Errorf("%v has the precision %v, levels %s and a burst of %d", algorithm, l.Precision, got, l.Burst)
		}
	}
	l := limit(t, 5, Hour, 3, TokenBucket, 0)
	if l.Burst != 5 || l.Capacity() != 5 {
		t.Errorf("got a burst of %d and %d at once, want the 5 requests", l.Burst, l.Capacity())
	}
	small, err := l.WithBurst(2)
	if err != nil || small.Capacity() != 2 || small.Requests != 5 || !small.SameState(&l) {
		t.Errorf("got %+v, %v; want 2 at once, and the same state: another burst keeps the count", small, err)
	}
	if l := limit(t, 0, Hour, 1, TokenBucket, 0); l.Burst != 0 {
		t.Errorf("a bucket that blocks everything has room for %d", l.Burst)
	}
	for _, burst := range []uint64{0, MaxBurst + 1} {
		if got, err := l.WithBurst(burst); err == nil {
			t.Errorf("a burst of %d is taken for %+v", burst, got)
		}
	}
	for _, wrong := range []Limit{{Requests: MaxBurst + 1, Algorithm: TokenBucket, Unit: Hour}, {}, {Unit: Hour}} {
		if got, err := NewLimit(wrong.Requests, wrong.Unit, 1, wrong.Algorithm, 0); err == nil {
			t.Errorf("%+v is taken for %+v: a script counts exactly up to MaxBurst, and no store what is unknown", wrong, got)
		}
	}
}

func TestStateBelongsToAlgorithmWindowAndPrecision(t *testing.T) {
	base := limit(t, 10, Minute, 1, SlidingWindow, 0)
	same := limit(t, 99, Second, 60, SlidingWindow, time.Second)
	same.Name = "other"
	if !base.SameState(&same) {
		t.Error("requests, name and the unit that a window is written in must not change the state")
	}
	for _, other := range []Limit{
		limit(t, 10, Minute, 1, FixedWindow, 0),
		limit(t, 10, Minute, 1, SlidingLog, 0),
		limit(t, 10, Minute, 1, TokenBucket, 0),
		limit(t, 10, Minute, 2, SlidingWindow, 0),
		limit(t, 10, Minute, 1, SlidingWindow, 50*time.Millisecond),
	} {
		if base.SameState(&other) {
			t.Errorf("%+v must not share a state with %+v", other, base)
		}
	}
}

func TestChargeFollowsAlgorithmUnlessARuleDecides(t *testing.T) {
	for _, a := range Algorithms() {
		l := limit(t, 1, Minute, 1, a, 0)
		got := []bool{ChargeByAlgorithm.Always(&l), ChargeAdmitted.Always(&l), ChargeAlways.Always(&l)}
		if want := []bool{a == FixedWindow, false, true}; !slices.Equal(got, want) {
			t.Errorf("a %v limit charges always by algorithm, admitted and always: %v, want %v", a, got, want)
		}
	}
}

func TestUnitsMatchEnvoy(t *testing.T) {
	for name, want := range map[string]struct {
		number Unit
		length time.Duration
	}{
		"second": {1, time.Second}, "minute": {2, time.Minute}, "hour": {3, time.Hour}, "day": {4, day},
		"month": {5, 30 * day}, "year": {6, 365 * day}, "week": {7, 7 * day},
	} {
		got, err := ParseUnit(name)
		if err != nil || got != want.number || got.Duration() != want.length || got.String() != name || !got.Known() {
			t.Errorf("%s: got number %d, %v, as %q; Envoy's is %d", name, got, got.Duration(), got, want.number)
		}
	}
	for _, u := range []Unit{0, 8, 255} {
		if u.Known() || u.Duration() != 0 || u.String() != fmt.Sprintf("unit(%d)", uint8(u)) {
			t.Errorf("unit %d must not be known: %v, %v", uint8(u), u, u.Duration())
		}
	}
}

// What is said is held against simulations in cmd/weir/simulatecmd.
func TestExceededBoundsExplainThemselves(t *testing.T) {
	for _, tc := range []struct {
		algorithm Algorithm
		burst     uint64
		charge    Charge
		most      uint64
		why       string
	}{
		{SlidingWindow, 0, ChargeByAlgorithm, 10, "the oldest bucket counts whole until all of it is out, so a hit may be denied up to 1s too early"},
		{SlidingWindow, 0, ChargeAlways, 10, "the oldest bucket counts whole until all of it is out, so a hit may be denied up to 1s too early; denied hits count " +
			"too, so that a caller who goes on asking may stay denied"},
		{SlidingLog, 0, ChargeByAlgorithm, 10, "each hit counts for exactly the window, and nothing is denied too early"},
		{FixedWindow, 0, ChargeByAlgorithm, 20, "10 just before a multiple of 1m since 1970, and as many just after it, and nothing is denied too early but by a " +
			"denied request of several hits, which uses up its window"},
		{FixedWindow, 0, ChargeAdmitted, 20, "10 just before a multiple of 1m since 1970, and as many just after it, and nothing is denied too early"},
		{TokenBucket, 0, ChargeByAlgorithm, 20, "10 at once, and those for which room leaks free meanwhile, and nothing is denied before 10 came within 1m"},
		{TokenBucket, 2, ChargeByAlgorithm, 12, "2 at once, and those for which room leaks free meanwhile; a hit may be denied though fewer than 10 came in 1m, as " +
			"10 do not fit at once"},
	} {
		l, err := NewLimit(10, Minute, 1, tc.algorithm, 0)
		if tc.burst > 0 && err == nil {
			l, err = l.WithBurst(tc.burst)
		}
		if err != nil {
			t.Fatal(err)
		}
		if most, why := l.Bound(tc.charge); most != tc.most || why != fmt.Sprintf("at most %d in any 1m: %s", tc.most, tc.why) {
			t.Errorf("%s, charge %d: %d, %q; want %d, %q", l.Describe(), tc.charge, most, why, tc.most, tc.why)
		}
	}
}
