package limit

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
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
	never  = time.Duration(math.MaxInt64)

	overtaken = 64 // ticks that a request may be late
)

// add adds hits of a key, and returns how many a second it had before them, 0 if it had no two in the last seconds; and
// how long ago it had the last one, never if that is not known.
func (r *rates) add(key hits.Key, n uint64, at time.Time) (rate float32, ago time.Duration) {
	slot, now := &r[key%hits.Key(len(r))], uint16(at.UnixMicro()/tick.Microseconds())
	was, had := slot.Load(), float32(0)
	ago = never
	if was != 0 && was>>48 == uint64(key>>48) {
		had, ago = math.Float32frombits(uint32(was)), 0
		switch passed := int16(now - uint16(was>>32)); {
		case passed > 0:
			ago = time.Duration(passed) * tick
			had *= float32(math.Exp(-ago.Seconds() / fading.Seconds()))
		case passed > -overtaken:
			now -= uint16(passed) // a later request was faster
		default: // the clock stepped back, or half an hour has passed
			had, ago = 0, never
		}
	}
	slot.CompareAndSwap(was, uint64(key>>48)<<48|uint64(now)<<32|uint64(math.Float32bits(had+float32(n))))
	if had < chance {
		return 0, ago
	}
	return had / float32(fading.Seconds()), ago
}

// reuse estimates what share of a rule's requests for keys without a rate would be answered by a lease, if the request
// before had brought one. Of requests that come at the same time some may be missed.
type reuse struct{ share atomic.Uint32 } // a float32

const (
	reuseWeight = 1. / 256                 // of the latest request
	worthwhile  = 0.25                     // a lease that spares less is hardly worth what it holds
	expected    = 2 * backend.MinLeaseHits // hits of a key that may come back, within the time of a lease
)

// rate takes in a request for a key without a rate, which was last asked for some time ago. It returns the rate that the
// key is to have for a lease of some span: 0 if too few keys of the rule come back before a lease of theirs would end. As
// that ends with a bucket, it may end at any time within the span.
func (r *reuse) rate(ago, span time.Duration) float32 {
	was := r.share.Load()
	share := math.Float32frombits(was)
	came := float32(0)
	if ago < rand.N(span) {
		came = 1
	}
	r.share.CompareAndSwap(was, math.Float32bits(share+(came-share)*reuseWeight))
	if share < worthwhile {
		return 0
	}
	return expected / float32(span.Seconds())
}
