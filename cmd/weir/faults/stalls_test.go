package faults_test

import (
	"sync"
	"testing"
	"time"
)

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

// memory is how long weir may think that a server is away because the machine stood still.
const memory = time.Second

// lateOrAway reports whether a call that was given a budget may have had no answer from a store because the machine
// stood still for half of it, then or not long before: what was late then makes weir think that a server is away.
func (s *stalls) lateOrAway(c *call, budget time.Duration) bool {
	return s.excuses(c.begun-memory, c.ended, budget/2)
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
