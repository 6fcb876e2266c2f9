package faults_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"
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

// stalls are the times in which the machine did not let this process run: what is late then says nothing about weir.
type stalls struct {
	mu   sync.Mutex
	list []stall
}

type stall struct{ from, to time.Duration } // in the record's time

const (
	nap       = time.Millisecond
	longStall = 3 * time.Millisecond
)

// watchStalls notes until the test ends how much too long a nap takes.
func watchStalls(t *testing.T, r *record) *stalls {
	t.Helper()
	s := &stalls{}
	go func() {
		for at := r.now(); t.Context().Err() == nil; {
			time.Sleep(nap)
			next := r.now()
			if next-at > nap+longStall {
				s.mu.Lock()
				s.list = append(s.list, stall{at, next})
				s.mu.Unlock()
			}
			at = next
		}
	}()
	return s
}

// late reports whether a call may have been late because the machine stood still.
func (s *stalls) late(c *call) bool {
	return (c.verdict == unanswered || c.reason == "late") && s.excuses(c.begun-longStall, c.ended, 0)
}

// awayFor is how long weir may think that a server is away because the machine stood still.
const awayFor = time.Second

// lateOrAway reports whether a call that was given a budget may have had no answer from a store because the machine
// stood still for half of it, then or not long before: what was late then makes weir think that a server is away.
func (s *stalls) lateOrAway(c *call, budget time.Duration) bool {
	return s.excuses(c.begun-awayFor, c.ended, budget/2)
}

// excuses reports whether the machine stood still within a time, for so long at least.
func (s *stalls) excuses(from, to, atLeast time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stood := range s.list {
		if stood.from <= to && stood.to >= from && stood.to-stood.from >= atLeast {
			return true
		}
	}
	return false
}
