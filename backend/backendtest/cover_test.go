package backendtest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

func TestCoverOfTheExamples(t *testing.T) {
	at := func(s string) window.Instant {
		now, err := time.Parse("2006-01-02 15:04:05.999", s)
		if err != nil {
			t.Fatal(err)
		}
		return window.At(now)
	}
	day := NewLimit(t, 10, descriptors.Day, 1, descriptors.SlidingWindow, time.Second)
	minute := NewLimit(t, 10, descriptors.Minute, 1, descriptors.SlidingWindow, 0)
	hour := NewLimit(t, 10, descriptors.Hour, 1, descriptors.SlidingWindow, 0)
	for _, tc := range []struct {
		limit descriptors.Limit
		now   string
		want  []int64 // buckets of each level, the finest first
	}{
		{day, "2026-11-21 23:30:33", []int64{27, 29, 24}},
		{day, "2026-11-21 23:30:33.999", []int64{27, 29, 24}},
		{day, "2026-11-21 23:00:01", []int64{59, 59, 24}},
		{day, "2026-11-21 00:00:00", []int64{0, 0, 25}},
		{day, "2026-11-21 23:59:59.999", []int64{1, 0, 24}},
		{minute, "2026-11-21 12:00:33.2", []int64{27, 1}}, // of the two READMEs
		{hour, "2026-11-21 12:00:33.2", []int64{0, 2}},
	} {
		got := make([]int64, len(tc.want))
		for _, r := range cover(tc.limit.Levels(), tc.limit.Window, at(tc.now)) {
			got[r.level] += r.count
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
		l := RandomSliding(t, r)
		now := window.Instant(r.Int64N(4e15)) - 1e15
		width := micros(l.Levels()[0])
		next := window.Instant(index(now-micros(l.Window), width)) * width
		for _, r := range cover(l.Levels(), l.Window, now) {
			w := micros(l.Levels()[r.level])
			if begin := window.Instant(r.first) * w; begin != next {
				t.Fatalf("%v at %d: level %d begins at %d, want %d: a gap or an overlap miscounts", l, now, r.level, begin, next)
			}
			next = window.Instant(r.first+r.count) * w
		}
		if next <= now {
			t.Fatalf("%v at %d: the cover ends at %d, before now: the newest hits are not counted", l, now, next)
		}
	}
}
