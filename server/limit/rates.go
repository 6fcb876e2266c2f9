package limit

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/server/hits"
)

// rates estimates at which rate keys are asked for in this process, in half a megabyte. Each key has one slot, and takes
// it from a key that had it before. Its methods may be called by any number of goroutines. Of hits that come at the same
// time some may be missed.
type rates [1 << 16]atomic.Uint64

// A slot holds 16 bits of a key, the time in ticks, and a float32: the hits until then, of which an e-th is left after
// some seconds.
const (
	tick   = 62500 * time.Microsecond // a sixteenth of a second
	fading = 3 * time.Second          // until an e-th is left
	chance = 1.1                      // of no more hits nothing follows
)

// add adds hits of a key, and returns how many a second it had before them: 0 if the key had no two in the last seconds.
func (r *rates) add(key hits.Key, n uint64, at time.Time) float32 {
	slot, now := &r[key%hits.Key(len(r))], uint16(at.UnixMicro()/tick.Microseconds())
	was, had := slot.Load(), float32(0)
	if was>>48 == uint64(key>>48) {
		had = math.Float32frombits(uint32(was))
		if passed := int16(now - uint16(was>>32)); passed > 0 {
			had *= float32(math.Exp(-float64(passed) * (tick.Seconds() / fading.Seconds())))
		} else {
			now -= uint16(passed) // the clock stepped back, or a later request was faster
		}
	}
	slot.CompareAndSwap(was, uint64(key>>48)<<48|uint64(now)<<32|uint64(math.Float32bits(had+float32(n))))
	if had < chance {
		return 0
	}
	return had / float32(fading.Seconds())
}
