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

func TestASlidingWindowTakesItsLevelsFromItsLength(t *testing.T) {
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

func TestOnlyASlidingWindowHasAPrecisionAndOnlyATokenBucketABurst(t *testing.T) {
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
	for _, wrong := range []struct {
		l     Limit
		burst uint64
		want  string
	}{
		{l, 0, "a burst of 0 is out of range: from 1 to 4503599627370496"},
		{l, MaxBurst + 1, "is out of range"},
		{limit(t, 0, Hour, 1, TokenBucket, 0), 1, "burst has no meaning beside 0 requests"},
		{limit(t, 5, Hour, 1, FixedWindow, 0), 1, "burst has no meaning for fixed_window: leave it out, or use token_bucket"},
	} {
		if got, err := wrong.l.WithBurst(wrong.burst); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("a burst of %d for %v (%v): got %+v, %v; want …%s…", wrong.burst, wrong.l, wrong.l.Algorithm, got, err, wrong.want)
		}
	}
	if _, err := NewLimit(MaxBurst+1, Hour, 1, TokenBucket, 0); err == nil || !strings.Contains(err.Error(), "at most 4503599627370496") {
		t.Errorf("a bucket of more than a script counts exactly: %v", err)
	}
}

func TestNewLimitRefusesWhatNoStoreCanCount(t *testing.T) {
	tests := []struct {
		unit       Unit
		multiplier uint32
		algorithm  Algorithm
		precision  time.Duration
		want       string
	}{
		{0, 1, SlidingWindow, 0, "unknown unit: use one of second, minute"},
		{Minute, 0, SlidingWindow, 0, "unit_multiplier must be at least 1"},
		{Year, 293, FixedWindow, 0, "a window of 293 years is longer than 292 years"},
		{Day, 100_001, SlidingWindow, 0, "a window of 100001d is too long for sliding_window: at most 100000 days"},
		{Year, 292, SlidingWindow, time.Hour, "is too long for sliding_window"},
		{Minute, 1, 0, 0, "unknown algorithm: use one of sliding_window, fixed_window, sliding_log"},
		{Minute, 1, FixedWindow, time.Second, "precision has no meaning for fixed_window"},
		{Minute, 1, SlidingLog, time.Second, "precision has no meaning for sliding_log, which is exact to the microsecond"},
		{Year, 201, SlidingLog, 0, "a window of 73365d is too long for sliding_log: at most 73000 days"},
		{Minute, 1, SlidingWindow, 2 * time.Second, "precision 2s is not a bucket width: use one of 50ms, 1s, 1m, 1h, 1d"},
		{Second, 1, SlidingWindow, time.Second, "precision 1s must be below the window of 1s"},
		{Second, 100_001, SlidingWindow, time.Second,
			"precision 1s is too fine for a window of 27h46m41s: at most 100000 buckets fit, so use 1m or coarser"},
	}
	for _, test := range tests {
		_, err := NewLimit(1, test.unit, test.multiplier, test.algorithm, test.precision)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d of unit %d, %v, precision %v: got error %v, want …%s…", test.multiplier, test.unit, test.algorithm,
				test.precision, err, test.want)
		}
	}
}

// TestEveryLimitThatIsAllowedIsCountable walks over windows of all sizes and looks for limits that a store
// could not count.
func TestEveryLimitThatIsAllowedIsCountable(t *testing.T) {
	precisions := append([]time.Duration{0}, ladder[:]...)
	for window := uint32(1); window < 1<<31; window += 1 + window/97 {
		for _, precision := range precisions {
			l, err := NewLimit(1, Second, window, SlidingWindow, precision)
			if err != nil {
				if precision == 0 {
					t.Fatalf("%d s: the default precision is refused: %v", window, err)
				}
				continue
			}
			if l.Precision >= l.Window || (l.Window+l.Precision-1)/l.Precision > maxPrecisions {
				t.Fatalf("%d s with precision %v is allowed", window, l.Precision)
			}
			levels := l.Levels()
			for i := 1; i < len(levels); i++ {
				if levels[i]%levels[i-1] != 0 {
					t.Fatalf("%d s: level %v does not hold whole buckets of %v", window, levels[i], levels[i-1])
				}
			}
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

func TestChargeDependsOnTheAlgorithmUnlessARuleDecides(t *testing.T) {
	for _, a := range Algorithms() {
		l := limit(t, 1, Minute, 1, a, 0)
		got := []bool{ChargeByAlgorithm.Always(&l), ChargeAdmitted.Always(&l), ChargeAlways.Always(&l)}
		if want := []bool{a == FixedWindow, false, true}; !slices.Equal(got, want) {
			t.Errorf("a %v limit charges always by algorithm, admitted and always: %v, want %v", a, got, want)
		}
	}
}

func TestUnitsAreThoseOfEnvoy(t *testing.T) {
	numbers := map[string]struct {
		number Unit
		length time.Duration
	}{
		"second": {1, time.Second}, "minute": {2, time.Minute}, "hour": {3, time.Hour}, "day": {4, day},
		"month": {5, 30 * day}, "year": {6, 365 * day}, "week": {7, 7 * day},
	}
	names := strings.Split(UnitNames, ", ")
	if len(names) != len(numbers) {
		t.Fatalf("messages list %s; there are %d units", UnitNames, len(numbers))
	}
	for _, name := range names {
		want := numbers[name]
		for _, spelling := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			u, err := ParseUnit(spelling)
			if u != want.number || err != nil {
				t.Errorf("%s: got number %d, %v; Envoy's is %d", spelling, u, err, want.number)
			}
		}
		if got := want.number; got.Duration() != want.length || got.String() != name || !got.Known() {
			t.Errorf("%s: got %v as %q", name, got.Duration(), got)
		}
	}
	for _, u := range []Unit{0, 8, 255} {
		if u.Known() || u.Duration() != 0 || u.String() != fmt.Sprintf("unit(%d)", uint8(u)) {
			t.Errorf("unit %d must not be known: %v, %v", uint8(u), u, u.Duration())
		}
	}
	for _, wrong := range []string{"", "minutes", "unknown", "5"} {
		_, unit := ParseUnit(wrong)
		_, algorithm := ParseAlgorithm(wrong)
		if _, charge := ParseCharge(wrong); unit == nil || algorithm == nil || charge == nil {
			t.Errorf("%q is taken for a unit (%v), an algorithm (%v) or a charge (%v)", wrong, unit, algorithm, charge)
		}
	}
}
