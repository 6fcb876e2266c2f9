package door

import (
	"sync"
	"time"
)

// SampleInterval is the least time between two lines of one Sampled.
const SampleInterval = 10 * time.Second

// Sampled lets one line through in each Gap, as clients may cause any number. Any number of goroutines may use it.
type Sampled struct {
	mu      sync.Mutex // protects what follows
	last    time.Time  // when a line was last logged
	skipped int        // lines since then
}

// Log calls log with how many lines were left out since the last, or leaves out this one.
func (s *Sampled) Log(now time.Time, log func(others int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < SampleInterval {
		s.skipped++
		return
	}
	log(s.skipped)
	s.last, s.skipped = now, 0
}
