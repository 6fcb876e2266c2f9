package guard

import (
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// stranded counts the hits of a key that were leased, that nobody will use, and that still count: never too few. It keeps
// them by spans, each as long as a hit counts at most.
type stranded struct {
	recent, older uint64    // hits of the span that began at since, and of the one before
	since         time.Time // on the monotonic clock
}

// sum returns at least as many hits as still count, if one counts for span at most.
func (s *stranded) sum(span time.Duration, now time.Time) uint64 {
	switch passed := now.Sub(s.since); {
	case passed >= 2*span:
		*s = stranded{since: now}
	case passed >= span:
		*s = stranded{older: s.recent, since: now}
	}
	return s.recent + s.older
}

// add adds hits.
func (s *stranded) add(hits uint64, span time.Duration, now time.Time) {
	s.sum(span, now) // begins a span if the last one is over
	s.recent += hits
}

// longest returns how long a hit counts under some limits at most.
func longest(limits []descriptors.Limit) (long time.Duration) {
	for i := range limits {
		long = max(long, limits[i].Window+limits[i].Precision)
	}
	return long
}

// maxFormer is how many keys one formerKeys holds.
const maxFormer = 2048

// formerKeys are keys, by their hashes, that gave their places in a shard to others. It is far smaller than a shard is, so
// that a key can give its place away, come back, and yet lease no more than its share.
type formerKeys map[uint64]formerKey

type formerKey struct {
	stranded uint64    // hits
	until    time.Time // they count at most
}

// add adds a key if it has stranded any hits, and reports whether there was room. It removes some whose hits no longer
// count.
func (f formerKeys) add(key uint64, k formerKey, now time.Time) bool {
	if k.stranded == 0 {
		return true
	}
	whileFull(f, maxFormer, func(key uint64, old formerKey) {
		if now.After(old.until) {
			delete(f, key)
		}
	})
	if len(f) >= maxFormer {
		return false
	}
	f[key] = k
	return true
}

// take removes a key, and returns it.
func (f formerKeys) take(key uint64) formerKey {
	k := f[key]
	delete(f, key)
	return k
}
