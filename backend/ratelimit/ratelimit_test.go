package ratelimit

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

func limit(t *testing.T, n uint64, u descriptors.Unit) descriptors.Limit {
	t.Helper()
	return backendtest.NewLimit(t, n, u, 1, descriptors.FixedWindow, 0)
}

// The names are those of envoyproxy/ratelimit's own tests, with what its program was seen to write beside them.
func TestKeysMatchRatelimit(t *testing.T) {
	l := limit(t, 10, descriptors.Minute)
	if w := (Keys{}).Window(&l, time.Unix(119, 250_000_000)); w.Begin != 60 || w.TimeLeft != 750*time.Millisecond {
		t.Errorf("at 119.25 s the minute begins at %d and ends in %v; want 60, and 750 ms", w.Begin, w.TimeLeft)
	}
	for _, tc := range []struct {
		stem string
		unit descriptors.Unit
		now  int64
		want string
		life int64
		rest time.Duration
	}{
		{"domain_key_value_", descriptors.Second, 1234, "domain_key_value_1234", 1, time.Second},
		{"prefix:domain_key_value_", descriptors.Second, 1234, "prefix:domain_key_value_1234", 1, time.Second},
		{"domain_key2_value2_subkey2_subvalue2_", descriptors.Minute, 1234, "domain_key2_value2_subkey2_subvalue2_1200", 60, 26 * time.Second},
		{"domain_key3_value3_", descriptors.Hour, 1_000_000, "domain_key3_value3_997200", 3600, 800 * time.Second},
		{"domain_key3_value3_subkey3_subvalue3_", descriptors.Day, 1_000_000, "domain_key3_value3_subkey3_subvalue3_950400", 86400, 36800 * time.Second},
		{"domain_files_files/*_", descriptors.Second, 1234, "domain_files_files/*_1234", 1, time.Second},
		{"domain_k__", descriptors.Week, 1_000_000, "domain_k__604800", 604800, 209600 * time.Second},
		{"d_k_v_", descriptors.Month, 1_777_777_777, "d_k_v_1775520000", 2592000, 334223 * time.Second},
		{"d_k_v_", descriptors.Year, 1_777_777_777, "d_k_v_1766016000", 31536000, 19774223 * time.Second},
		{"d_k_v_", descriptors.Minute, 60, "d_k_v_60", 60, time.Minute},
		{"d_k_v_", descriptors.Minute, 59, "d_k_v_0", 60, time.Second},
		{"d_k_v_", descriptors.Minute, -1, "d_k_v_-60", 60, time.Second},
	} {
		l := limit(t, 10, tc.unit)
		w := Keys{}.Window(&l, time.Unix(tc.now, 0))
		if got := string(w.AppendKey(nil, []byte(tc.stem))); got != tc.want {
			t.Errorf("the key of %s at %d, a limit per %v, is %s; want %s: envoyproxy/ratelimit would count elsewhere",
				tc.stem, tc.now, tc.unit, got, tc.want)
		}
		if ttl := (Keys{}).TTL(w); ttl != tc.life || w.TimeLeft != tc.rest {
			t.Errorf("at %d a limit per %v lasts for %d s and resets in %v; want %d s, and %v", tc.now, tc.unit, ttl, w.TimeLeft, tc.life, tc.rest)
		}
	}
}

// Months are those of the calendar in UTC, wherever the process runs, and over the end of a year.
func TestCalendarMonthsBeginInUTC(t *testing.T) {
	month, day := limit(t, 10, descriptors.Month), limit(t, 10, descriptors.Day)
	keys := Keys{CalendarMonths: true}
	west := time.FixedZone("west", -8*3600)
	utc := func(y int, m time.Month, d, h, min, s, ns int) time.Time {
		return time.Date(y, m, d, h, min, s, ns, time.UTC)
	}
	for _, tc := range []struct {
		now, begin time.Time
		rest       time.Duration
		life       int64
	}{
		{utc(2026, 3, 15, 12, 0, 0, 0), utc(2026, 3, 1, 0, 0, 0, 0), 16*24*time.Hour + 12*time.Hour, 1_425_600},
		{utc(2026, 12, 31, 23, 59, 59, 500e6), utc(2026, 12, 1, 0, 0, 0, 0), 500 * time.Millisecond, 1},
		{utc(2027, 1, 1, 0, 0, 0, 0), utc(2027, 1, 1, 0, 0, 0, 0), 31 * 24 * time.Hour, 31 * 86400},
		{utc(2028, 2, 1, 0, 0, 0, 0), utc(2028, 2, 1, 0, 0, 0, 0), 29 * 24 * time.Hour, 29 * 86400},
		{utc(2027, 1, 31, 6, 0, 0, 0).In(west), utc(2027, 1, 1, 0, 0, 0, 0), 18 * time.Hour, 64800},
		{time.Date(2026, 12, 31, 20, 0, 0, 0, west), utc(2027, 1, 1, 0, 0, 0, 0), 31*24*time.Hour - 4*time.Hour, 31*86400 - 4*3600},
	} {
		w := keys.Window(&month, tc.now)
		if w.Begin != tc.begin.Unix() || w.TimeLeft != tc.rest || keys.TTL(w) != tc.life {
			t.Errorf("at %v the month begins at %v, ends in %v, and its key lasts %d s; want %v, %v, %d s", tc.now,
				time.Unix(w.Begin, 0).UTC(), w.TimeLeft, keys.TTL(w), tc.begin, tc.rest, tc.life)
		}
		if got, want := keys.Window(&day, tc.now), (Keys{}).Window(&day, tc.now); got != want {
			t.Errorf("at %v a day is %+v with calendar months, and %+v without; want no difference", tc.now, got, want)
		}
	}
}

func TestJitterStaysWithinItsBounds(t *testing.T) {
	l := limit(t, 10, descriptors.Minute)
	w := Keys{}.Window(&l, time.Unix(1234, 0))
	for _, jitter := range []int64{-1, 0, 1, 7, 300, math.MaxInt64} {
		seen := make(map[int64]bool)
		for range 5000 {
			ttl := Keys{Jitter: jitter}.TTL(w)
			if seen[ttl] = true; ttl < 60 || ttl >= 60+max(1, jitter) && jitter < math.MaxInt64 || ttl < 0 {
				t.Fatalf("with a jitter of %d s a key of a minute lasts %d s; want less than that much more than 60", jitter, ttl)
			}
		}
		if jitter > 0 && jitter <= 300 && len(seen) != int(jitter) {
			t.Errorf("with a jitter of %d s keys last %d different times; want each: they must not all end together", jitter, len(seen))
		}
	}
}

func TestDecideJudgesEachCount(t *testing.T) {
	const rest = 26 * time.Second
	for _, tc := range []struct {
		name  string
		n     uint64
		op    backend.Op
		hits  uint64
		after int64
		want  backend.Decision
	}{
		{"the first", 10, backend.Count, 1, 1, backend.Decision{Allowed: true, Remaining: 9, ResetIn: rest}},
		{"the last that fits", 10, backend.Count, 1, 10, backend.Decision{Allowed: true, Before: 9, ResetIn: rest, NextIn: rest}},
		{"the first that does not", 10, backend.Count, 1, 11, backend.Decision{Before: 10, ResetIn: rest, RetryIn: rest}},
		{"one that straddles the limit", 20, backend.Count, 3, 22, backend.Decision{Before: 19, ResetIn: rest, RetryIn: rest}},
		{"more than the limit", 20, backend.Count, 21, 21, backend.Decision{ResetIn: rest, RetryIn: backend.Never}},
		{"a limit of nothing", 0, backend.Count, 1, 1, backend.Decision{ResetIn: rest, RetryIn: backend.Never}},
		{"no hits at the limit", 5, backend.Count, 0, 5, backend.Decision{Allowed: true, Before: 5, ResetIn: rest}},
		{"a look below", 5, backend.Look, 0, 3, backend.Decision{Allowed: true, Before: 3, Remaining: 2, ResetIn: rest}},
		{"a look at the limit", 5, backend.Look, 0, 5, backend.Decision{Allowed: true, Before: 5, ResetIn: rest}},
		{"a look above it", 5, backend.Look, 0, 6, backend.Decision{Before: 6, ResetIn: rest, RetryIn: rest}},
		{"a look at nothing", 5, backend.Look, 0, 0, backend.Decision{Allowed: true, Remaining: 5, ResetIn: rest}},
		{"a refund", 5, backend.Refund, 2, 3, backend.Decision{Allowed: true, Before: 5, Remaining: 2, ResetIn: rest}},
		{"a refund that leaves more than the limit", 5, backend.Refund, 2, 7, backend.Decision{Allowed: true, Before: 9, ResetIn: rest}},
		{"a refund of more than there is", 5, backend.Refund, 9, -6, backend.Decision{Allowed: true, Before: 3, Remaining: 5, ResetIn: rest}},
		{"a refund of nothing there", 5, backend.Refund, 2, -2, backend.Decision{Allowed: true, Remaining: 5, ResetIn: rest}},
		{"a count while a refund is under way", 5, backend.Count, 1, -3, backend.Decision{Allowed: true, Remaining: 4, ResetIn: rest}},
		{"a huge one", 5, backend.Count, math.MaxUint64, window.MaxCount, backend.Decision{ResetIn: rest, RetryIn: backend.Never}},
		{"a huge refund", 5, backend.Refund, math.MaxUint64, 4 - window.MaxCount, backend.Decision{Allowed: true, Before: 4, Remaining: 5, ResetIn: rest}},
		{"one where Redis can count no more", 5, backend.Count, 1, math.MaxInt64, backend.Decision{Before: window.MaxCount, ResetIn: rest, RetryIn: rest}},
		{"a refund where it cannot either", 5, backend.Refund, 1, math.MinInt64, backend.Decision{Allowed: true, Remaining: 5, ResetIn: rest}},
	} {
		c := backend.Check{Op: tc.op, Hits: tc.hits, Limits: []descriptors.Limit{limit(t, tc.n, descriptors.Minute)}}
		if got := Decide(&c, tc.after, rest); got != tc.want {
			t.Errorf("%s: %d hits that leave %d under %d a minute\ngot  %+v\nwant %+v", tc.name, tc.hits, tc.after, tc.n, got, tc.want)
		}
	}
}

// Whatever the order in which refunds and huge counts reach a key, and take back what they did too much, it ends between
// 0 and what a state holds.
func TestExcessIsTakenBackOnce(t *testing.T) {
	for _, tc := range []struct {
		name  string
		start int64
		by    []int64
		want  int64
	}{
		{"one refund", 3, []int64{-5}, 0},
		{"two refunds at once", 1, []int64{-3, -3}, 0},
		{"a refund and a count between", 1, []int64{-3, 2}, 2},
		{"a count beyond what is held", 7, []int64{window.MaxCount}, window.MaxCount},
		{"many of them", 7, []int64{window.MaxCount, window.MaxCount, window.MaxCount}, window.MaxCount},
		{"nothing too far", 7, []int64{5, -2}, 10},
	} {
		n, back := tc.start, int64(0)
		for _, by := range tc.by {
			n += by
			back += Correction(by, n)
		}
		if n+back != tc.want {
			t.Errorf("%s: %d is left; want %d", tc.name, n+back, tc.want)
		}
	}
	for _, extreme := range []int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64} {
		for _, by := range []int64{-window.MaxCount, -1, 0, 1, window.MaxCount} {
			if back := Correction(by, extreme); back > max(by, -by) || back < -max(by, -by) {
				t.Errorf("a check that added %d and left %d takes back %d; want no more than it added", by, extreme, back)
			}
		}
	}
}

func TestWindowsListsEachUnitOnce(t *testing.T) {
	now := time.Unix(1_777_777_777, 0)
	var got []int64
	for _, w := range Windows(now) {
		got = append(got, w.Begin)
	}
	for _, u := range descriptors.Units() {
		l := limit(t, 1, u)
		for _, k := range []Keys{{}, {CalendarMonths: true}} {
			if !slices.Contains(got, k.Window(&l, now).Begin) {
				t.Errorf("the window of a limit per %v is not among %v: its counter would stay", u, got)
			}
		}
	}
	if len(got) != 8 {
		t.Errorf("%d windows, %v; want 8, each once", len(got), got)
	}
}
