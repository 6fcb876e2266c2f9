package statsd

import (
	"sync/atomic"
	"time"
)

// maxTimes is how many response times are sent of one interval: enough for quantiles, and 5 KB a second at most.
const maxTimes = 1000

// times holds the first response times of an interval. Adding one neither waits nor allocates.
type times struct {
	seen  atomic.Uint64
	first chan time.Duration // maxTimes
}

func (t *times) add(took time.Duration) {
	t.seen.Add(1)
	select {
	case t.first <- took:
	default:
	}
}

// take returns the first times, and which share of all they are, and begins another interval. A time that is just being
// added may be in the next.
func (t *times) take() (first []time.Duration, rate float64) {
	seen := t.seen.Swap(0)
	for range len(t.first) {
		first = append(first, <-t.first)
	}
	return first, float64(len(first)) / float64(max(1, int(seen), len(first)))
}
