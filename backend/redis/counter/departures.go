package counter

import (
	"sync"
	"time"
)

// departures lets callers leave in time. All share one timer: nearly every caller is answered long before it has to
// leave, and a timer of its own would be set and stopped for nothing. The zero value is ready.
type departures struct {
	mu    sync.Mutex
	calls []*call // whose callers wait, each at its place
	timer *time.Timer
	rings time.Time // when it does; zero: not at all
}

// add notes a call whose caller is about to wait. From its leave on, it has a token.
func (d *departures) add(c *call, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.place = len(d.calls)
	d.calls = append(d.calls, c)
	if d.rings.IsZero() || c.leave.Before(d.rings) {
		d.ring(c.leave, now)
	}
}

// remove takes a call out. It returns false if the call was told to leave before.
func (d *departures) remove(c *call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.place < 0 {
		return false
	}
	d.take(c)
	return true
}

// take takes a call out and puts the last one in its place.
func (d *departures) take(c *call) {
	end := len(d.calls) - 1
	last := d.calls[end]
	d.calls[c.place], last.place = last, c.place
	d.calls[end] = nil
	d.calls = d.calls[:end]
	c.place = -1
}

// ring sets the timer.
func (d *departures) ring(at, now time.Time) {
	d.rings = at
	if d.timer == nil {
		d.timer = time.AfterFunc(at.Sub(now), d.tick)
	} else {
		d.timer.Reset(at.Sub(now))
	}
}

// tick tells callers to leave whose time is over, and sets the timer for the next one.
func (d *departures) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	var next time.Time
	for i := len(d.calls) - 1; i >= 0; i-- { // downwards, as the last one takes the place of one that is taken out
		switch c := d.calls[i]; {
		case !now.Before(c.leave):
			d.take(c)
			c.done <- struct{}{}
		case next.IsZero() || c.leave.Before(next):
			next = c.leave
		}
	}
	d.rings = next
	if !next.IsZero() {
		d.ring(next, now)
	}
}
