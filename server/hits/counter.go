package hits

import (
	"sync/atomic"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/history"
)

// MaxHits is the most that one check adds; of more, the rest is not counted. It is a tebibyte, for rules that count
// bytes. 16 million such checks fit between two drains before a difference could wrap, and stores bound a series'
// lifetime themselves.
const MaxHits = 1 << 40

// Counter counts the hits of a rule, or of one of its values, by what became of them. Its methods neither wait nor
// allocate, and may be called by any number of goroutines.
//
// Hits within the limit, over it and degraded add up to all hits. Those that were near the limit are a part of the
// first, those that shadow mode let through a part of the second; the whole is added before its part, and read after
// it, so that no reader sees a part that is larger than its whole.
type Counter struct {
	totals    [history.Outcomes]atomic.Uint64
	drained   [history.Outcomes]uint64 // the part that Drain has handed out; Recorder.draining protects it
	ratelimit *Ratelimit               // nil unless the recorder counts as envoyproxy/ratelimit does
}

// Pass counts hits that pass without a limit.
func (c *Counter) Pass(hits uint64) { c.add(history.Within, hits) }

// Modes are how a limiter lets pass what is over, and what it takes for near.
type Modes struct {
	Near      float32 // the share of a limit above which hits are near it
	Shadow    bool    // the rule is in shadow mode
	ShadowAll bool    // everything is
}

// Record counts what was decided about a check that counts or gives back.
func (c *Counter) Record(check *backend.Check, d *backend.Decision, m Modes) {
	if check.Op == backend.Refund {
		c.ratelimit.add(TotalNegativeHits, check.Hits)
		return
	}
	c.ratelimit.add(TotalHits, check.Hits)
	if d.Err != nil || d.Source.Degraded() {
		c.add(history.Degraded, check.Hits)
		return
	}
	fit, near := split(check, d, m.Near)
	over := check.Hits - fit
	c.add(history.Within, fit)
	c.add(history.Near, near)
	c.add(history.Over, over)
	if m.Shadow || m.ShadowAll {
		c.add(history.Shadow, over)
	}
	if c.ratelimit == nil {
		return
	}
	if d.Allowed { // else nothing is within: the part of a charge that fits is near or nowhere
		c.ratelimit.add(WithinLimit, check.Hits)
	}
	c.ratelimit.add(NearLimit, near)
	c.ratelimit.add(OverLimit, over)
	if d.Source == backend.FromDenyCache {
		c.ratelimit.add(OverLimitWithLocalCache, over)
	}
	if m.Shadow {
		c.ratelimit.add(ShadowMode, over)
	}
}

// split returns how many hits of a check fit, and how many of these are above a share of the limit. A charge that is
// made whatever is decided may straddle the limit: what it took of the room that was there fits.
func split(check *backend.Check, d *backend.Decision, share float32) (fit, near uint64) {
	limit := &check.Limits[d.Strictest]
	requests := limit.Capacity()
	switch {
	case d.Allowed:
		fit = check.Hits
	case check.Charge.Always(limit) && d.Source != backend.FromDenyCache:
		fit = min(check.Hits, requests-min(requests, d.Before))
	}
	return fit, Near(requests, d.Before, fit, share)
}

func (c *Counter) add(o history.Outcome, hits uint64) {
	if hits > 0 {
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

// drain hands out what has been counted since it last did.
func (c *Counter) drain(id history.ID, hand func(history.ID, uint64)) {
	for o := history.Outcomes - 1; o >= 0; o-- {
		total := c.totals[o].Load()
		if more := total - c.drained[o]; more > 0 {
			id.Outcome = history.Outcome(o)
			hand(id, more)
			c.drained[o] = total
		}
	}
}

// addTo adds the totals to t.
func (c *Counter) addTo(t *Totals) {
	t.Shadow += c.totals[history.Shadow].Load()
	t.Near += c.totals[history.Near].Load()
	t.Degraded += c.totals[history.Degraded].Load()
	t.Over += c.totals[history.Over].Load()
	t.Within += c.totals[history.Within].Load()
}
