package backendtest

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// History is a random walk on a few keys that is known before anything is asked: neither its checks nor its clock
// depend on the answers. So a store may be asked without waiting for each answer, and a history that a store gets wrong
// can be made shorter.
type History struct {
	Name string // of the seed and the round, and in all its keys
	Asks []Ask
}

// Ask is one check of a history.
type Ask struct {
	Call  int // checks of one call have the same number, and the same time
	Now   window.Instant
	Check backend.Check
	Want  backend.Decision // what the model decides
}

const (
	askedOfOne  = 200 // checks of a history on one key
	askedOfMany = 800 // and on more
	maxCall     = 64  // checks of a call
)

// newHistory draws a history. While it is played, the clocks of servers go on, and these drop
// keys by them. With patience, the time that playing may take, no key is asked again that would have less to live,
// until it is gone by the history's clock, and windows are so long that few keys ever come to that.
func newHistory(o Walks, round int) History {
	r := rand.New(rand.NewPCG(o.Seed, uint64(round)))
	h := History{Name: fmt.Sprintf("%d/%d", o.Seed, round)}
	patience := o.Patience
	total, models := askedOfOne, []*model{newModel(slowRule(r, 6*patience))}
	if o.Keys > 1 && (o.many || round%8 == 0) { // many keys, of a few rules, in calls of many checks
		total = askedOfMany
		for range o.Keys - 1 {
			if r.IntN(8) == 0 {
				models = append(models, newModel(slowRule(r, 6*patience)))
			} else {
				models = append(models, newModel(models[r.IntN(len(models))].rule))
			}
		}
	}
	backwards := []int{0, 2, 20}[r.IntN(3)]
	now := start + window.Instant(r.Int64N(1e12))
	for call := 0; len(h.Asks) < total; call++ {
		now = max(0, now+randomMove(r, models[r.IntN(len(models))].rule.limits, backwards)) // no clock shows a time before 1970
		size := 1
		if len(models) > 1 {
			size = 1 + r.IntN(maxCall)
		}
		var gone window.Instant
		for range size {
			key := r.IntN(len(models))
			a := models[key].ask(r, now)
			a.Call, a.Check.Key = call, fmt.Appendf(nil, "%s/%d", h.Name, key)
			h.Asks = append(h.Asks, a)
			gone = max(gone, models[key].gone(now, patience))
		}
		now = max(now, gone)
	}
	return h
}

// slowRule draws a rule until all its windows are long enough.
func slowRule(r *rand.Rand, shortest time.Duration) rule {
	for {
		drawn := anyRule(r)
		if !slices.ContainsFunc(drawn.limits, func(l descriptors.Limit) bool { return l.Window < shortest }) {
			return drawn
		}
	}
}

// ask draws a check and decides it.
func (m *model) ask(r *rand.Rand, now window.Instant) Ask {
	m.follow(changed(r, m.rule.limits))
	a := Ask{Now: now, Check: backend.Check{Limits: m.rule.limits, Charge: m.rule.charge}}
	a.Check.Op, a.Check.Hits = randomOp(r, m.rule.limits[0].Capacity())
	a.Want = m.decide(a.Check.Op, a.Check.Hits, now)
	return a
}

// gone returns when nothing of the key counts any more, if that is less than patience from now; else 0.
func (m *model) gone(now window.Instant, patience time.Duration) window.Instant {
	if patience == 0 {
		return 0
	}
	last := now
	for _, b := range m.counts {
		last = max(last, b.Until(now, 0))
	}
	if span(now, last) >= patience {
		return 0
	}
	return last
}

// Calls gives the checks that are asked together, in order.
func (h History) Calls() iter.Seq[[]Ask] {
	return func(yield func([]Ask) bool) {
		for asks := h.Asks; len(asks) > 0; {
			n := 1
			for n < len(asks) && asks[n].Call == asks[0].Call {
				n++
			}
			if !yield(asks[:n]) {
				return
			}
			asks = asks[n:]
		}
	}
}

// wrong returns the first step that is not answered as wanted, and the answer; -1 if there is none.
func (h History) wrong(got []backend.Decision, err error) (step int, answer string) {
	for i := range h.Asks {
		switch {
		case i == len(got):
			return i, fmt.Sprintf("not at all: %v", err)
		case h.Asks[i].Want != got[i]:
			return i, fmt.Sprintf("%+v", got[i])
		}
	}
	return -1, ""
}

// String lists the checks, a line each.
func (h History) String() string {
	var b strings.Builder
	call, before := -1, window.Instant(0)
	for i, a := range h.Asks {
		if i == 0 {
			fmt.Fprintf(&b, "at %d µs", a.Now)
		} else if a.Call != call {
			fmt.Fprintf(&b, "%+v later", span(before, a.Now))
		}
		call, before = a.Call, a.Now
		op := map[backend.Op]string{backend.Count: "count", backend.Look: "look", backend.Refund: "refund"}[a.Check.Op]
		fmt.Fprintf(&b, "\t%s %d: %+v\n", op, a.Check.Hits, a.Want)
	}
	return b.String()
}
