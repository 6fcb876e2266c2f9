package hits

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
	"github.com/weirproxy/weir/server/hits/heavy"
)

// Who takes the most is known of the present period and of the one before: a half to a whole minute. 16 parts of 64
// keys at least, in two orders, take 1 MB, and with the longest descriptors 3.
const (
	takerPeriod   = 30 // seconds
	takerParts    = 16
	takersInPart  = 64
	maxDescriptor = 512 // bytes of a descriptor that are shown
)

// takers know who takes the most in this process: by the highest bits of a key, so that not all wait for one lock.
type takers [takerParts]takersPart

// takersPart has the heaviest of a part of all keys. A key that was denied may be among these in both orders.
type takersPart struct {
	mu     sync.Mutex
	period int64 // the present one
	orders [2]takerOrder
}

// takerOrder has the heaviest by all hits, or by those over a limit.
type takerOrder struct {
	heavy   *heavy.Sketch[taker] // nil before the first hit
	missing uint64               // of a key, in the period before
}

const byAll, byOver = 0, 1

// taker is what a key took since it is held.
type taker struct {
	rule       byrule.Name
	descriptor []byte
	shared     bool
	limit      descriptors.Limit // the strictest, as of a denial if there was one
	before     counts
	present    counts
	rate       rate
}

// rate counts the hits of the present second and of the one before.
type rate struct {
	second          int64
	before, present uint64
}

// to moves to a second. One that is a little earlier is that of a request under way.
func (r *rate) to(second int64) {
	switch {
	case second == r.second+1:
		r.before, r.present, r.second = r.present, 0, second
	case second > r.second, second < r.second-1:
		*r = rate{second: second}
	}
}

// Key is what a key of a check is known by here.
type Key uint64

// Key returns that of a check's key.
func (r *Recorder) Key(of []byte) Key { return Key(maphash.Bytes(r.seed, of)) }

// Rate returns how many hits a second a key was asked for in this process, admitted or not: those of the last second,
// partly of the present one and partly of the one before, or fewer if the key came lately. It is 0 for a key that is
// not among the heaviest. It costs some 20 ns.
func (r *Recorder) Rate(k Key, at time.Time) float64 {
	part := r.takers.part(k)
	part.mu.Lock()
	defer part.mu.Unlock()
	sketch := part.orders[byAll].heavy
	if sketch == nil {
		return 0
	}
	held := sketch.Find(uint64(k))
	if held == nil {
		return 0
	}
	now := held.rate
	now.to(at.Unix())
	return float64(now.present) + float64(now.before)*(1-float64(at.Nanosecond())/1e9)
}

func (t *takers) part(k Key) *takersPart { return &t[k>>60] }

// note counts hits of a key.
func (t *takers) note(rule *byrule.Name, h *Hit, n *counts) {
	part := t.part(h.Key)
	part.mu.Lock()
	defer part.mu.Unlock()
	part.moveTo(h.At.Unix() / takerPeriod)
	part.orders[byAll].note(rule, h, n, n.all())
	part.orders[byOver].note(rule, h, n, n[history.Over])
}

func (o *takerOrder) note(rule *byrule.Name, h *Hit, n *counts, weight uint64) {
	if weight == 0 {
		return
	}
	if o.heavy == nil {
		o.heavy = heavy.New[taker](takersInPart)
	}
	held, fresh := o.heavy.Add(uint64(h.Key), weight)
	if fresh {
		*held = taker{rule: *rule, descriptor: held.descriptor[:0]}
		held.show(h)
	}
	if h.Decision.Err == nil && len(h.Check.Limits) > 0 && (fresh || n[history.Over] > 0) {
		held.limit = h.Check.Limits[h.Decision.Strictest]
	}
	for i := range n {
		held.present[i] += n[i]
	}
	held.rate.to(h.At.Unix())
	held.rate.present += n.all()
}

// show writes the descriptor down, with the pattern in place of a value where the values of the pattern count as one.
func (t *taker) show(h *Hit) {
	d := h.Descriptor
	for i := range d {
		if pattern := h.Rule.Shared(i); pattern != "" {
			if !t.shared {
				t.shared, d = true, slices.Clone(d)
			}
			d[i].Value = pattern
		}
	}
	t.descriptor = d.AppendShort(t.descriptor, maxDescriptor)
}

// moveTo makes a period the present one. One that is a little earlier is that of a request under way.
func (p *takersPart) moveTo(period int64) {
	if period == p.period || period == p.period-1 {
		return
	}
	for i := range p.orders {
		o := &p.orders[i]
		if o.heavy == nil {
			continue
		}
		if period != p.period+1 { // long ago, or the clock stepped back
			o.heavy.Reset()
		}
		o.missing = o.heavy.Missing()
		o.heavy.Renew(func(h *heavy.Held[taker]) uint64 {
			h.Kept.before, h.Kept.present = h.Kept.present, counts{}
			if i == byOver {
				return h.Kept.before[history.Over]
			}
			return h.Kept.before.all()
		})
	}
	p.period = period
}

// Taker is a key that takes much. Its hits are lower bounds: it had at least as many.
type Taker struct {
	Domain, Path string // of the rule, as it is stored; history.Unmatched for limits of requests without one
	Descriptor   string // cut to 512 bytes
	Shared       bool   // a pattern stands in it for all values that fit
	Limit        descriptors.Limit
	Within, Over, Degraded,
	Near, Shadow uint64 // near is part of within, shadow of over
	Rate float64 // hits a second now, see Recorder.Rate
}

// Hits returns all its hits.
func (t Taker) Hits() uint64 { return t.Within + t.Over + t.Degraded }

// Taken is who took the most.
type Taken struct {
	Since time.Time
	// Missing is the most hits that a key lacks here: one that is not among the takers had no more. MissingOver is the same
	// of hits over a limit.
	Missing, MissingOver uint64
	Takers               []Taker // in no order
}

// Taken returns the keys that took the most in this process in the half minute that is under way at a moment and in the
// one before: some hundreds, among them all that the bounds are about.
func (r *Recorder) Taken(at time.Time) Taken {
	period := at.Unix() / takerPeriod
	taken := Taken{Since: time.Unix((period-1)*takerPeriod, 0)}
	for i := range r.takers {
		p := &r.takers[i]
		p.mu.Lock()
		p.moveTo(period)
		found := make(map[uint64]*Taker)
		for order, missing := range [...]*uint64{&taken.Missing, &taken.MissingOver} {
			if o := &p.orders[order]; o.heavy != nil {
				*missing = max(*missing, o.missing+o.heavy.Missing())
				o.addTo(found, at)
			}
		}
		p.mu.Unlock()
		for _, t := range found {
			taken.Takers = append(taken.Takers, *t)
		}
	}
	return taken
}

// addTo adds what is held of each key, or raises what is known of it.
func (o *takerOrder) addTo(found map[uint64]*Taker, at time.Time) {
	for i := range o.heavy.Held() {
		h := &o.heavy.Held()[i]
		k := &h.Kept
		t := found[h.Key]
		if t == nil {
			k.rate.to(at.Unix())
			t = &Taker{Domain: k.rule.Domain, Path: k.rule.Path, Descriptor: string(k.descriptor), Shared: k.shared, Limit: k.limit,
				Rate: float64(k.rate.present) + float64(k.rate.before)*(1-float64(at.Nanosecond())/1e9)}
			found[h.Key] = t
		}
		for o, n := range [...]*uint64{&t.Within, &t.Over, &t.Degraded, &t.Near, &t.Shadow} {
			*n = max(*n, k.before[o]+k.present[o])
		}
	}
}
