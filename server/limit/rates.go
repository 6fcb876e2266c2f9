package limit

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/server/hits"
)

// rates estimates the rate of keys in this process, in 512 KiB. Each key has one slot; it takes a slot over from
// another key once that has fewer hits. Its methods may be called by any number of goroutines. Concurrent hits may be missed.
type rates [1 << 16]atomic.Uint64

// A slot holds 16 bits of a key, the time in ticks, and a float32: the decayed sum of the hits up to that time.
const (
	tick  = 62500 * time.Microsecond // a sixteenth of a second
	decay = 3 * time.Second          // the time constant of the exponential average

	maxLateTicks = 64 // how many ticks a request may be older than the one before it
)

// add adds hits of a key, and returns its rate before them, in hits a second.
func (r *rates) add(key hits.Key, n uint64, at time.Time) float32 {
	slot, now := &r[key%hits.Key(len(r))], uint16(at.UnixMicro()/tick.Microseconds())
	was, had := slot.Load(), float32(0)
	if was != 0 {
		had = math.Float32frombits(uint32(was))
		switch passed := int16(now - uint16(was>>32)); {
		case passed > 0:
			had *= float32(math.Exp(-(time.Duration(passed) * tick).Seconds() / decay.Seconds()))
		case passed > -maxLateTicks:
			now -= uint16(passed) // a later request came first
		default: // the clock stepped back, or half an hour has passed
			had = 0
		}
	}
	if was>>48 != uint64(key>>48) {
		if had > float32(n) {
			return 0
		}
		had = 0
	}
	slot.CompareAndSwap(was, uint64(key>>48)<<48|uint64(now)<<32|uint64(math.Float32bits(had+float32(n))))
	return had / float32(decay.Seconds())
}
