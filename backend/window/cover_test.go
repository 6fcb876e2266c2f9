package window

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

func at(s string) Instant {
	t, err := time.Parse("2006-01-02 15:04:05.999", s)
	if err != nil {
		panic(err) // a typo in a test table
	}
	return At(t)
}

func dayBySecond(t *testing.T) descriptors.Limit {
	t.Helper()
	return limit(t, 10, descriptors.Day, 1, descriptors.SlidingWindow, time.Second)
}

func limit(t *testing.T, n uint64, u descriptors.Unit, times uint32, a descriptors.Algorithm, p time.Duration) descriptors.Limit {
	t.Helper()
	l, err := descriptors.NewLimit(n, u, times, a, p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCoverOfTheExamples(t *testing.T) {
	minute := limit(t, 10, descriptors.Minute, 1, descriptors.SlidingWindow, 0)
	hour := limit(t, 10, descriptors.Hour, 1, descriptors.SlidingWindow, 0)
	for _, tc := range []struct {
		limit descriptors.Limit
		now   string
		want  []int64 // buckets of each level, the finest first
	}{
		{dayBySecond(t), "2026-11-21 23:30:33", []int64{27, 29, 24}},
		{dayBySecond(t), "2026-11-21 23:30:33.999", []int64{27, 29, 24}},
		{dayBySecond(t), "2026-11-21 23:00:01", []int64{59, 59, 24}},
		{dayBySecond(t), "2026-11-21 00:00:00", []int64{0, 0, 25}},
		{dayBySecond(t), "2026-11-21 23:59:59.999", []int64{1, 0, 24}},
		{minute, "2026-11-21 12:00:33.2", []int64{27, 1}}, // of the two READMEs
		{hour, "2026-11-21 12:00:33.2", []int64{0, 2}},
	} {
		got := make([]int64, len(tc.want))
		for _, run := range Cover(nil, tc.limit.Levels(), tc.limit.Window, at(tc.now)) {
			got[run.Level] += run.Count
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%v at %s: the cover has %v buckets on its levels; want %v", tc.limit, tc.now, got, tc.want)
		}
	}
}

// The cover must hold each finest bucket from the trailing one to the live one exactly once, and nothing older.
func TestCoverIsSeamless(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		l := randomSliding(t, r)
		now := Instant(r.Int64N(4e15)) - 1e15
		width := micros(l.Levels()[0])
		next := Instant((now - micros(l.Window)).index(width)) * width
		for _, run := range Cover(nil, l.Levels(), l.Window, now) {
			w := micros(l.Levels()[run.Level])
			if begin := Instant(run.First) * w; begin != next {
				t.Fatalf("%v at %d: level %v begins at %d, want %d: a gap or an overlap miscounts", l, now, l.Levels()[run.Level], begin, next)
			}
			next = Instant(run.First+run.Count) * w
		}
		if next <= now {
			t.Fatalf("%v at %d: the cover ends at %d, before now: the newest hits are not counted", l, now, next)
		}
	}
}

// randomSliding draws a sliding window with any precision that is allowed for it.
func randomSliding(t *testing.T, r *rand.Rand) descriptors.Limit {
	t.Helper()
	for {
		u := descriptors.Unit(1 + r.IntN(7))
		precision := []time.Duration{0, 50 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}[r.IntN(6)]
		l, err := descriptors.NewLimit(1+r.Uint64N(10), u, 1+r.Uint32N(5), descriptors.SlidingWindow, precision)
		if err == nil {
			return l
		}
	}
}

func TestOracleReadsThroughTheCover(t *testing.T) {
	l := dayBySecond(t)
	b := NewBuckets(&l)
	now := at("2026-11-21 23:30:33")
	for back := range 48 {
		b.Add(now-Instant(48-back)*1800e6, 1)
	}
	before := b.reads
	if sum := b.Sum(now); sum != 48 {
		t.Errorf("48 hits, one each half hour of the last day, give a sum of %d", sum)
	}
	if reads := b.reads - before; reads != 80 {
		t.Errorf("the sum took %d reads; want 24 hours + 29 minutes + 27 seconds = 80", reads)
	}
}

func ExampleCover() {
	levels := []time.Duration{time.Second, time.Minute, time.Hour}
	now := At(time.Date(2026, 11, 21, 23, 30, 33, 0, time.UTC))
	for _, run := range Cover(nil, levels, 24*time.Hour, now) {
		first := time.UnixMicro(run.First * levels[run.Level].Microseconds()).UTC()
		fmt.Printf("%d × %v from %s\n", run.Count, levels[run.Level], first.Format("Jan 2 15:04:05"))
	}
	// Output:
	// 27 × 1s from Nov 20 23:30:33
	// 29 × 1m0s from Nov 20 23:31:00
	// 24 × 1h0m0s from Nov 21 00:00:00
}
