package statsd

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// maxTimes is how many response times are sent of one interval: enough for quantiles, and 5 KB a second at most.
const maxTimes = 1000

// times holds a sample of the response times of an interval, each as likely as any other. Adding one neither waits nor
// allocates.
type times struct {
	seen   atomic.Uint64
	sample [maxTimes]atomic.Int64 // nanoseconds, at least 1, of the first so many; later ones take places at random
}

func (t *times) add(took time.Duration) {
	at := t.seen.Add(1) - 1
	if at >= maxTimes {
		if at = rand.Uint64N(at + 1); at >= maxTimes {
			return
		}
	}
	t.sample[at].Store(max(1, int64(took)))
}

// take returns the sample, and which share of all it is, and begins another. A time that is just being added may be
// missing, or be in the next sample in place of another; it is among all that the share is of.
func (t *times) take() (sample []time.Duration, rate float64) {
	seen := t.seen.Swap(0)
	for i := range min(seen, maxTimes) {
		if took := t.sample[i].Swap(0); took > 0 {
			sample = append(sample, time.Duration(took))
		}
	}
	return sample, float64(len(sample)) / float64(max(1, seen))
}
