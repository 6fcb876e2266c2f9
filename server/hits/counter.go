package hits

import (
	"sync/atomic"

	"github.com/weirproxy/weir/backend/history"
)

// MaxHits is the most that one check adds; of more, the rest is not counted. It is a tebibyte, for rules that count
// bytes. 16 million such checks fit between two drains before a difference could wrap, and stores bound a series'
// lifetime themselves.
const MaxHits = 1 << 40

// Counter counts the hits of a rule, or of one of its values, by what became of them. Its methods neither wait nor
// allocate, and may be called by any number of goroutines. A nil Counter counts nothing: that is where looks and
// refunds go.
//
// Admitted, denied and degraded hits add up to all hits. Those that were near the limit are a part of the admitted ones,
// those that shadow mode let through a part of the denied ones; the whole is added before its part, and read after it,
// so that no reader sees a part that is larger than its whole.
type Counter struct {
	totals  [history.Outcomes]atomic.Uint64
	drained [history.Outcomes]uint64 // what Drain has handed out of each; for whoever holds Recorder.draining
	tally   *Tally                   // nil unless the recorder keeps tallies
}

// Tally returns where the same hits are counted as envoyproxy/ratelimit does, nil where they are not.
func (c *Counter) Tally() *Tally {
	if c == nil {
		return nil
	}
	return c.tally
}

// Admit counts hits that passed, of which so many were near the limit; see [Near].
func (c *Counter) Admit(hits, near uint64) {
	c.add(history.Within, hits)
	c.add(history.Near, min(near, hits))
}

// Deny counts hits that were over a limit, those included that shadow mode let through.
func (c *Counter) Deny(hits uint64, shadow bool) {
	c.add(history.Over, hits)
	if shadow {
		c.add(history.Shadow, hits)
	}
}

// Degrade counts hits that no store decided.
func (c *Counter) Degrade(hits uint64) { c.add(history.Degraded, hits) }

// Verdict is what became of the hits of a check under one limit.
type Verdict struct {
	Requests, Before, Hits uint64 // of the limit; that counted already; of the check
	NearRatio              float32
	Allowed                bool
	Always                 bool // the hits are charged even if they are denied
	Remembered             bool // the denial was known, without asking the store
	Shadow                 bool // a denial lets pass, as the rule is in shadow mode
	ShadowAll              bool // it lets pass, as everything is in shadow mode
}

// Record counts what a store has decided.
func (c *Counter) Record(v Verdict) {
	if c == nil {
		return
	}
	fit, near := v.split()
	c.Admit(fit, near)
	c.Deny(v.Hits-fit, v.Shadow || v.ShadowAll)
	c.tally.count(&v, near, v.Hits-fit)
}

// split returns how many hits fit, and how many of these are near the limit. A charge that is made whatever the verdict
// may straddle the limit: what it took of the room that was left fits.
func (v *Verdict) split() (fit, near uint64) {
	switch {
	case v.Allowed:
		fit = v.Hits
	case v.Always && !v.Remembered:
		fit = min(v.Hits, v.Requests-min(v.Requests, v.Before))
	}
	return fit, Near(v.Requests, v.Before, fit, v.NearRatio)
}

func (c *Counter) add(o history.Outcome, hits uint64) {
	if c != nil && hits > 0 {
		c.totals[o].Add(min(hits, MaxHits))
	}
}

// DefaultNear is the share of a limit above which hits are near it, unless asked otherwise.
const DefaultNear float32 = 0.8

// Near returns how many of the hits of a check that a limit of requests admits lie above a share of it, rounded down as
// envoyproxy/ratelimit does, in 32 bits; before is what counted already.
func Near(requests, before, hits uint64, share float32) uint64 {
	near := uint64(float32(requests) * share)
	switch after := before + hits; {
	case after <= near:
		return 0
	case before >= near:
		return hits
	default:
		return after - near
	}
}

// drain hands out what has been counted since it last did, and reports whether there was anything.
func (c *Counter) drain(id history.ID, hand func(history.ID, uint64)) (found bool) {
	for o := history.Outcomes - 1; o >= 0; o-- {
		total := c.totals[o].Load()
		if more := total - c.drained[o]; more > 0 {
			id.Outcome = history.Outcome(o)
			hand(id, more)
			c.drained[o], found = total, true
		}
	}
	return found
}

// addTo adds the totals to t.
func (c *Counter) addTo(t *Totals) {
	t.Shadow += c.totals[history.Shadow].Load()
	t.Near += c.totals[history.Near].Load()
	t.Degraded += c.totals[history.Degraded].Load()
	t.Over += c.totals[history.Over].Load()
	t.Within += c.totals[history.Within].Load()
}
