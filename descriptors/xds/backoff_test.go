package xds

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestPausesGrowUpToTheLongest(t *testing.T) {
	first := func(b Backoff, n int) (seconds []float64) {
		b = b.bounded()
		for next := b.Retry; len(seconds) < n; next = b.next(next) {
			seconds = append(seconds, b.jittered(next).Seconds())
		}
		return seconds
	}
	forever := time.Duration(math.MaxInt64).Seconds()
	for _, test := range []struct {
		pauses Backoff
		want   []float64
	}{
		{Backoff{Retry: 3 * time.Second, Initial: 10 * time.Second, Max: time.Minute}, []float64{3, 10, 20, 40, 60, 60}},
		{Backoff{Retry: time.Second, Initial: 2 * time.Second, Max: 5 * time.Second, Jitter: math.NaN()}, []float64{1, 2, 4, 5, 5}},
		{Backoff{Retry: time.Minute, Initial: 90 * time.Second}, []float64{60, 90, 90}},
		{Backoff{}, []float64{0.1, 0.1}},
		{Backoff{Retry: math.MaxInt64, Initial: math.MaxInt64, Max: math.MaxInt64}, []float64{forever, forever, forever}},
	} {
		if got := first(test.pauses, len(test.want)); !slices.Equal(got, test.want) {
			t.Errorf("%+v: the pauses are %v, want %v seconds", test.pauses, got, test.want)
		}
	}
}

func TestAPartOfEachPauseIsLeftToChance(t *testing.T) {
	for jitter, from := range map[float64]time.Duration{0.5: 5 * time.Second, 7: minWait} {
		b := Backoff{Jitter: jitter}.bounded()
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			pause := b.jittered(10 * time.Second)
			least, most = min(least, pause), max(most, pause)
		}
		if least < from || least > from+time.Second || most > 10*time.Second || most < 9*time.Second {
			t.Errorf("with a jitter of %v pauses of 10 s take from %v to %v, want from %v to 10 s", jitter, least, most, from)
		}
	}
}
