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
	leave, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		for at := r.now(); ; {
			select {
			case <-leave:
				return
			case <-time.After(nap):
			}
			next := r.now()
			if next-at > nap+longStall {
				s.mu.Lock()
				s.list = append(s.list, stall{at, next})
				s.mu.Unlock()
			}
			at = next
		}
	}()
	t.Cleanup(func() {
		close(leave)
		<-left
	})
	return s
}

// excuses reports whether the machine stood still within a time, or just before it.
func (s *stalls) excuses(from, to time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stood := range s.list {
		if stood.from <= to && stood.to >= from {
			return true
		}
	}
	return false
}

// sum returns how long the machine stood still in all, and at most at once.
func (s *stalls) sum() (all, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stood := range s.list {
		all += stood.to - stood.from
		longest = max(longest, stood.to-stood.from)
	}
	return all, longest
}
