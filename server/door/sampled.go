package door

import (
	"sync"
	"time"
)

// Gap is how long the log has no other line of the same kind.
const Gap = 10 * time.Second

// Sampled lets one line through in each Gap, as clients may cause any number. Any number of goroutines may use it.
type Sampled struct {
	mu     sync.Mutex // protects what follows
	told   time.Time  // when the last line was logged
	untold int        // left out since then
}

// Tell calls tell with how many lines were left out, or leaves out this one.
func (s *Sampled) Tell(now time.Time, tell func(others int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.told.IsZero() && now.Sub(s.told) < Gap {
		s.untold++
		return
	}
	tell(s.untold)
	s.told, s.untold = now, 0
}
