package export

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// Timers do not run by the clock that tells the time, so one may fire a little before its moment by that clock.
func TestEarlyFlushEndsItsInterval(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		at          time.Duration // after noon
		next        time.Duration // until the next flush
		nextsMinute int64         // of the hits that it will find, after noon
	}{
		{0, 15 * time.Second, 0},
		{3 * time.Millisecond, 14997 * time.Millisecond, 0},
		{-3 * time.Millisecond, 15003 * time.Millisecond, 0},
		{-7 * time.Second, 7 * time.Second, -1},
		{52 * time.Second, 8 * time.Second, 0},
		{60*time.Second - 90*time.Millisecond, 15090 * time.Millisecond, 1},
	} {
		e := New(Config{Drain: func(_ time.Time, yield func(history.ID, uint64)) { yield(history.ID{}, 1) }})
		now := noon.Add(tc.at)
		if got := e.untilFlush(now); got != tc.next {
			t.Errorf("%v after noon the next flush is in %v; want %v", tc.at, got, tc.next)
		}
		e.collect(now)
		clear(e.outboxes[history.ID{}.Partition()].pending)
		e.collect(now.Add(tc.next))
		want := cell{minute: noon.Unix()/60 + tc.nextsMinute}
		if found := e.outboxes[history.ID{}.Partition()].pending; len(found) != 1 || found[want] == 0 {
			t.Errorf("%v after noon begins the interval of %+v; want %+v", tc.at, found, want)
		}
	}
}
