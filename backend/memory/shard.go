package memory

import (
	"sync"

	"github.com/weirproxy/weir/backend/window"
)

// shard holds the keys of one lock. Whoever changes entries reads the clock under the lock, or a goroutine that had to
// wait would seem to step back in time.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// sweep forgets the keys in which nothing counts by the clock, and returns how many they were. In the others it moves what
// lies after the clock's now into now: a key that nobody asks for would keep a moment of the future, and so stay.
func (sh *shard) sweep(clock func() window.Instant) (forgotten int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := clock()
	for key, e := range sh.entries {
		if e.rewind(now); e.expires == 0 {
			delete(sh.entries, key)
			forgotten++
		}
	}
	return forgotten
}
