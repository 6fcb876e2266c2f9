package hits

import (
	"sync"
	"sync/atomic"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Statistic is one of the numbers that envoyproxy/ratelimit counts for each rule.
type Statistic uint8

// The statistics. They do not add up: TotalHits are all hits that were asked about, also where no store answered; of a
// charge that straddles a limit one part is over it, and the other near it or nowhere.
const (
	TotalHits Statistic = iota
	OverLimit
	NearLimit
	OverLimitWithLocalCache // part of OverLimit
	WithinLimit
	ShadowMode // part of OverLimit
	TotalNegativeHits
	Statistics = int(TotalNegativeHits) + 1
)

// String returns the statistic's name in envoyproxy/ratelimit.
func (s Statistic) String() string {
	return [Statistics]string{"total_hits", "over_limit", "near_limit", "over_limit_with_local_cache", "within_limit",
		"shadow_mode", "total_negative_hits"}[s]
}

// ratelimitCounters counts a rule's hits as envoyproxy/ratelimit does. Its methods neither wait nor allocate, and may be
// called by any number of goroutines. A nil ratelimitCounters counts nothing: nobody reads these statistics then.
type ratelimitCounters struct{ totals [Statistics]atomic.Uint64 }

func (c *ratelimitCounters) add(s Statistic, hits uint64) {
	if c != nil && hits > 0 {
		c.totals[s].Add(min(hits, MaxHits))
	}
}

// ratelimitOf returns where hits are counted as envoyproxy/ratelimit does: by their descriptor, where the request brings
// the limit, and by their value, where their rule tells values apart.
func (c *Counter) ratelimitOf(e *Event) *ratelimitCounters {
	all, room := &c.recorder.ratelimit, [maxValue]byte{}
	switch {
	case c.ratelimitValues == nil:
		return c.ratelimit
	case e.Override:
		return c.ratelimitOwn.of(all, appendOwn(room[:0], e.Descriptor), func(known bool) string {
			if known {
				return descriptors.OwnMetric(c.rule.Domain, e.Descriptor, all.noDots)
			}
			return descriptors.MetricName(c.rule.Domain + "." + history.OtherValue)
		})
	case e.Rule == nil || len(e.Rule.Values) == 0:
		return c.ratelimit
	}
	return c.ratelimitValues.of(all, appendValue(room[:0], e.Rule, e.Descriptor), func(known bool) string {
		if known {
			return e.Rule.Metric(e.Descriptor, "", all.noDots)
		}
		return e.Rule.Metric(nil, history.OtherValue, all.noDots)
	})
}

// appendOwn appends what tells a descriptor with a limit of its own from others, nothing if that is too long.
func appendOwn(dst []byte, d descriptors.Descriptor) []byte {
	for _, entry := range d {
		if len(dst)+len(entry.Key)+len(entry.Value)+2 > maxValue {
			return dst[:0]
		}
		dst = append(append(append(append(dst, entry.Key...), 0), entry.Value...), 0)
	}
	return dst
}

// count counts hits that a store decided about. What fits is within the limit only as a whole: of a charge that
// straddles it the part that fits is near or nowhere.
func (c *ratelimitCounters) count(check *backend.Check, d *backend.Decision, fit, near uint64, shadow bool) {
	over := check.Hits - fit
	c.add(TotalHits, check.Hits)
	if d.Allowed {
		c.add(WithinLimit, check.Hits)
	}
	c.add(NearLimit, near)
	c.add(OverLimit, over)
	if d.Source == backend.FromDenyCache {
		c.add(OverLimitWithLocalCache, over)
	}
	if shadow {
		c.add(ShadowMode, over)
	}
}

// MaxRatelimitValues is how many values a rule that tells values apart has such counters for, the first ones, and how
// many descriptors with limits of their own a rule has, and what no rule matches in a domain.
const MaxRatelimitValues = 100

// ratelimitValues are counters by value, or by descriptor; "" has those of what came too late, or is too long.
type ratelimitValues struct {
	mu      sync.Mutex
	byValue map[string]*ratelimitCounters // nil before the first
}

// of returns the counters of a value, which name names, known or not. Finding a known one takes no allocation.
func (v *ratelimitValues) of(all *ratelimitNames, value []byte, name func(known bool) string) *ratelimitCounters {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byValue == nil {
		v.byValue = map[string]*ratelimitCounters{"": all.of(name(false))}
	}
	c := v.byValue[string(value)]
	switch {
	case c != nil:
		return c
	case len(v.byValue) > MaxRatelimitValues:
		return v.byValue[""]
	}
	c = all.of(name(true))
	v.byValue[string(value)] = c
	return c
}

// maxNames is how many names are counted by themselves, so that configurations that come and go do not fill memory:
// some 50 MB.
const maxNames = 1 << 18

// ratelimitNames hold the counters by name, also of rules that are gone: what was counted under a name never goes down.
type ratelimitNames struct {
	mu     sync.Mutex
	byName map[string]*ratelimitCounters // nil if nothing is counted so
	noDots bool
}

// of returns the counters under a name, made if there are none, nil if nothing is counted so. Once there are too many
// names, more go under that of all others.
func (n *ratelimitNames) of(name string) *ratelimitCounters {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byName == nil {
		return nil
	}
	if n.byName[name] == nil && len(n.byName) >= maxNames {
		name = history.OtherValue + "." + history.OtherValue
	}
	if n.byName[name] == nil {
		n.byName[name] = new(ratelimitCounters)
	}
	return n.byName[name]
}

// RatelimitTotals returns the totals since the start by name, without what is all zero. A total never goes down.
func (r *Recorder) RatelimitTotals() map[string][Statistics]uint64 {
	r.ratelimit.mu.Lock()
	defer r.ratelimit.mu.Unlock()
	all := make(map[string][Statistics]uint64, len(r.ratelimit.byName))
	for name, counted := range r.ratelimit.byName {
		var totals [Statistics]uint64
		for s := range totals {
			totals[s] = counted.totals[s].Load()
		}
		if totals != [Statistics]uint64{} {
			all[name] = totals
		}
	}
	return all
}
