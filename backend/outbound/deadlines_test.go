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
			c := &caller{done: make(chan struct{}, 2)}
			c.deadline = start.Add(after)
			d.add(c, time.Now())
			return c
		}
		late, soon, answered := add(30*time.Millisecond), add(10*time.Millisecond), add(5*time.Millisecond)
		if !d.remove(answered) {
			t.Error("a caller who is answered before its caller leaves was told to leave")
		}
		for _, c := range []*caller{soon, late} {
			<-c.done
			if took := time.Since(start); took != c.deadline.Sub(start) {
				t.Errorf("a caller left after %s, want %s", took, c.deadline.Sub(start))
			}
			if d.remove(c) {
				t.Error("a caller who was told to leave still waits to be told")
			}
		}
		if len(answered.done) > 0 {
			t.Error("a caller who does not wait any more was told to leave: who uses it next would leave at once")
		}
		again := add(40 * time.Millisecond) // after the timer has rung for all others
		<-again.done
		if took := time.Since(start); took != 40*time.Millisecond {
			t.Errorf("a caller who came when nobody waited left after %s, want 40ms", took)
		}
	})
}
