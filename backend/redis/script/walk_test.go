package script

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// Between now and what was counted lie more than a million chunks of a fine precision, and hardly any of them is there.
func TestAClockThatStepsBackFarIsFollowed(t *testing.T) {
	client, key := startRedis(t), string(AppendKey(nil, []byte("key")))
	limit := backendtest.NewLimit(t, 0, descriptors.Minute, 2, descriptors.SlidingWindow, 50*time.Millisecond)
	check := backend.Check{Limits: []descriptors.Limit{limit}, Hits: 1, Charge: descriptors.ChargeAlways}
	now := time.UnixMicro(1838965268050974)
	for i, step := range []struct {
		move   time.Duration
		before uint64
	}{{0, 0}, {13 * time.Second, 1}, {7 * time.Second, 2}, {6068 * time.Hour, 0}, {-4912 * time.Hour, 1}, {time.Second, 2}} {
		now = now.Add(step.move)
		if d := asFunction.ask(t, client, key, now.UnixMicro(), check); d.Before != step.before {
			t.Fatalf("step %d, %v later: %+v; want %d hits before", i, step.move, d, step.before)
		}
	}
}

// A clock that stands at its beginning, as one without a battery does, is a clock: buckets may be number 0.
func TestWindowsCountFromTheFirstBucketOfAllOn(t *testing.T) {
	client := startRedis(t)
	limits := []descriptors.Limit{backendtest.NewLimit(t, 9, descriptors.Year, 4, descriptors.SlidingWindow, time.Hour)}
	for hour := range part(24 * 16) {
		counts := []window.State{window.NewState(&limits[0])}
		now, key := window.Instant(time.Duration(hour)*time.Hour/time.Microsecond), string(AppendKey(nil, fmt.Append(nil, hour)))
		for i, op := range []backend.Op{backend.Count, backend.Count, backend.Refund} {
			c := backend.Check{Limits: limits, Op: op, Hits: uint64(2 + i)}
			want := window.Decide(counts, &c, now)
			if d := asFunction.ask(t, client, key, int64(now), c); d.Before != want.Before || d.Remaining != want.Remaining {
				t.Fatalf("begun in hour %d, check %d: %+v; want %+v", hour, i+1, d, want)
			}
			now = now.Plus(4000 * time.Hour)
		}
	}
}
