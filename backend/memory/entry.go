package memory

import (
	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// entry is a key and the states of its limits. The lock of its shard guards it.
type entry struct {
	key     string
	states  window.States
	expires window.Instant // when its last hit stops counting; 0 if none counts now
	reopens window.Instant // when one more hit fits; 0 if it fits now

	room [1]window.State // array of states while there is only one, in the same cache line
}

// newEntry makes the entry of a key, with room for the states of its limits.
func newEntry(key string, limits int) *entry {
	e := &entry{key: key}
	if e.states = e.room[:0]; limits > len(e.room) {
		e.states = make(window.States, 0, limits)
	}
	return e
}

// apply decides a check and updates expires and reopens.
func (e *entry) apply(c *backend.Check, now window.Instant) backend.Decision {
	var room [4]window.State
	d, states := e.states.Decide(c, now, room[:0])
	e.reopens = 0
	if d.Remaining == 0 {
		e.reopens = reopensAt(states, c.Limits, now)
	}
	e.dropExpired(now)
	return d
}

// reopensAt returns when one more hit fits every limit; 0 if it fits now, or never.
func reopensAt(states []window.State, limits []descriptors.Limit, now window.Instant) window.Instant {
	latest := now
	for i := range limits {
		if n := limits[i].Capacity(); n > 0 {
			latest = max(latest, states[i].Until(now, n-1))
		}
	}
	if latest == now {
		return 0
	}
	return latest
}

// rewind moves hits after now into now, in case the clock stepped back. It then limits reopens to expires, as the exact
// moment is unknown without the limits.
func (e *entry) rewind(now window.Instant) {
	for _, s := range e.states {
		s.Sum(now)
	}
	e.dropExpired(now)
	e.reopens = min(e.reopens, e.expires)
}

// dropExpired deletes the empty states.
func (e *entry) dropExpired(now window.Instant) { e.states, e.expires = e.states.DropExpired(now) }
