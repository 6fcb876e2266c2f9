package faults_test

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// verdict is how a call ended.
type verdict uint8

const (
	ok         verdict = iota
	over               // OVER_LIMIT
	failed             // an error that weir sent, or its absence
	unanswered         // nothing came before the call's deadline
	verdicts   = int(unanswered) + 1
)

// call is what the client knows of one call. Instants are since the record began, by the client's monotonic clock.
type call struct {
	key          int
	replica      int
	verdict      verdict
	policy       string // that decided in place of a store; "" if the store did
	reason       string // of that; policy error tells none
	limit        uint32 // requests per unit, as the answer has it; 0 without
	begun, ended time.Duration
	failure      string // of failed
}

// exact reports whether a store decided.
func (c *call) exact() bool { return c.verdict <= over && c.policy == "" }

// mayCount reports whether the call's hit may be counted although nobody said so.
func (c *call) mayCount() bool {
	return !c.exact() && c.reason != "down" && c.reason != "busy"
}

// unheard is for how long after its end the hit of a call that nobody answered may still be counted: what was sent waits
// in a socket for a server that the machine holds up.
const unheard = time.Second

// countedBy is when the call's hit is counted at the latest, if it is.
func (c *call) countedBy() time.Duration {
	if c.exact() {
		return c.ended
	}
	return c.ended + unheard
}

// record is all calls of a row.
type record struct {
	epoch time.Time

	mu    sync.Mutex
	calls []call
}

// now is the instant in the record's time.
func (r *record) now() time.Duration { return time.Since(r.epoch) }

func (r *record) add(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
}

// all returns the calls until now, in the order of their beginning.
func (r *record) all() []call {
	r.mu.Lock()
	calls := slices.Clone(r.calls)
	r.mu.Unlock()
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.begun, b.begun) })
	return calls
}

// since returns those that began at an instant or later.
func since(calls []call, at time.Duration) []call {
	i, _ := slices.BinarySearchFunc(calls, at, func(c call, at time.Duration) int { return cmp.Compare(c.begun, at) })
	return calls[i:]
}

// byKey returns the calls of each key, each in the order of their beginning.
func byKey(calls []call) [][]call {
	keys := make([][]call, len(allKeys))
	for _, c := range calls {
		keys[c.key] = append(keys[c.key], c)
	}
	return keys
}

// step is how finely recovery is told.
const step = 100 * time.Millisecond

// lastTrouble returns the end of the last step after from in which more than a tenth of the calls were not decided by a
// store, those apart that were late, or no call was; from itself if there is none. And it returns how many calls have since been asked
// in vain in such steps without a better one between them, those apart that the machine held up.
func (s *stalls) lastTrouble(calls []call, from time.Duration) (last time.Duration, inVain int) {
	last = from
	calls = since(calls, from)
	for len(calls) > 0 {
		at := calls[0].begun.Truncate(step)
		n, _ := slices.BinarySearchFunc(calls, at+step, func(c call, at time.Duration) int { return cmp.Compare(c.begun, at) })
		without, stored, asked := 0, 0, 0
		for i := range calls[:n] {
			if c := &calls[i]; c.exact() {
				stored++
			} else if !s.late(c) {
				without++
			}
			if !s.excuses(calls[i].begun-longStall, calls[i].ended, 0) {
				asked++
			}
		}
		if stored == 0 || without*10 > n {
			last, inVain = at+step, inVain+asked
		} else {
			inVain = 0
		}
		calls = calls[n:]
	}
	return last, inVain
}
