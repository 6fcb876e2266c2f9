package counter

import (
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
)

// call is one call of Decide. It holds all that lanes need of it, so that the caller may leave before they are done: it
// then stays behind, and is used again only when every lane has let go of it.
type call struct {
	asks    []ask
	text    []byte    // the keys and arguments of asks
	leave   time.Time // when the caller leaves at the latest
	gone    atomic.Bool
	waiting atomic.Int32  // asks without an answer
	done    chan struct{} // has a token once there are none, and one from leave on if the caller waits so long
	place   int           // among the departures; -1: none
}

// ask is one check on its way to a server. While it is in a lane, it is the lane's.
type ask struct {
	redis.Errand
	call     *call
	key, arg blob // key is that of the errand
	lane     *lane
	first    *ask      // the call's first one in the same lane
	next     *ask      // the call's next one there
	count    int       // how many they are; only the first one's counts, as does
	joined   time.Time // when they joined the lane

	reply     string
	increment             // of a key of envoyproxy/ratelimit
	err       error       // why there is no answer
	answered  atomic.Bool // reply and err are there, and stay
}

func newCall() *call {
	return &call{done: make(chan struct{}, 2)}
}

// set keeps what is needed of the checks.
func (c *call) set(checks []backend.Check, m method, leave time.Time) {
	c.leave = leave
	c.waiting.Store(int32(len(checks)))
	c.asks, c.text = c.asks[:0], c.text[:0]
	for i := range checks {
		c.asks = append(c.asks, ask{call: c})
		a := &c.asks[i]
		c.text = m.put(c.text, &checks[i], a)
		a.Errand = redis.Errand{At: redis.At{Key: a.key}}
	}
}

// cut returns text, and what is in it from a place on. Text that grows moves away, and leaves earlier parts where they
// are.
func cut(text []byte, from int) ([]byte, blob) { return text, blob(text[from:len(text):len(text)]) }

// link ties an ask to the one before it in the same lane, if there is one.
func (c *call) link(i int) {
	a := &c.asks[i]
	for j := i - 1; j >= 0; j-- {
		if before := &c.asks[j]; before.lane == a.lane {
			before.next, a.first = a, before.first
			a.first.count++
			return
		}
	}
}

// left reports whether the caller does not wait any more.
func (c *call) left(now time.Time) bool { return c.gone.Load() || !now.Before(c.leave) }

// answer hands the reply to the caller, or why there is none. The ask is not the lane's any more.
func (a *ask) answer(err error) {
	a.err = err
	a.answered.Store(true)
	if c := a.call; c.waiting.Add(-1) == 0 {
		c.done <- struct{}{}
	}
}
