package outbound

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestCallersLeaveAtTheirDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d deadlines
		start := time.Now()
		add := func(after time.Duration) *caller {
			c := &caller{leave: make(chan struct{}, 1)}
			c.deadline = start.Add(after)
			d.add(c, time.Now())
			return c
		}
		late, soon, answered := add(30*time.Millisecond), add(10*time.Millisecond), add(5*time.Millisecond)
		d.remove(answered)
		for _, c := range []*caller{soon, late} {
			<-c.leave
			if took := time.Since(start); took != c.deadline.Sub(start) {
				t.Errorf("a caller left after %s, want %s", took, c.deadline.Sub(start))
			}
			c.leave <- struct{}{} // as if it had been answered meanwhile
			if d.remove(c); len(c.leave) > 0 {
				t.Error("who uses the caller next would leave at once")
			}
		}
		if len(answered.leave) > 0 {
			t.Error("a caller who does not wait any more was told to leave: who uses it next would leave at once")
		}
		again := add(40 * time.Millisecond) // after the timer has rung for all others
		<-again.leave
		if took := time.Since(start); took != 40*time.Millisecond {
			t.Errorf("a caller who came when nobody waited left after %s, want 40ms", took)
		}
	})
}
