// Package rulestats counts the hits of each rule by the arithmetic of envoyproxy/ratelimit, under that program's
// names. It is on the request path: counting neither blocks nor allocates, except for new values.
package rulestats

import (
	"sync"
	"sync/atomic"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Statistic is one of the statistics that envoyproxy/ratelimit has for each rule.
type Statistic uint8

// The statistics. They do not add up to TotalHits, which has all requested hits, also those that no store decided. If a
// charge straddles a limit, one part is OverLimit, and the other NearLimit or in no statistic.
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

const (
	// MaxValues is how many values of a rule have their own counters: the first ones; later ones share one. The same
	// bound holds for the descriptors with overrides of a rule, and of a domain's unmatched descriptors.
	MaxValues = 100
	// maxNames is how many names have their own counters, in some 50 MB, however many rules reloads replace.
	maxNames = 1 << 18
	// maxHits is the most that one check adds, a tebibyte; the rest is not counted.
	maxHits = 1 << 40
)

// Registry holds the counters by name, also of removed rules, because counters never go down. Its methods may be
// called by any number of goroutines. A nil Registry counts nothing.
type Registry struct {
	noDots   bool
	notFound atomic.Uint64 // descriptors of unknown domains

	mu     sync.Mutex
	byName map[string]*Counters
}

// New makes a registry. With noDots, dots in keys and values become _ in names, so that dots only separate entries.
func New(noDots bool) *Registry { return &Registry{noDots: noDots, byName: make(map[string]*Counters)} }

// get returns the counters of a name, and makes them if needed. Beyond maxNames, new names share one.
func (r *Registry) get(name string) *Counters {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName[name] == nil && len(r.byName) >= maxNames {
		name = history.OtherValue + "." + history.OtherValue
	}
	if r.byName[name] == nil {
		r.byName[name] = new(Counters)
	}
	return r.byName[name]
}

// CountUnknownDomain counts a descriptor of an unknown domain.
func (r *Registry) CountUnknownDomain() {
	if r != nil {
		r.notFound.Add(1)
	}
}

// NotFound returns how many descriptors had an unknown domain.
func (r *Registry) NotFound() uint64 { return r.notFound.Load() }

// Totals returns the totals since the start by name, except names with only zeros. A total never goes down.
func (r *Registry) Totals() map[string][Statistics]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string][Statistics]uint64, len(r.byName))
	for name, counters := range r.byName {
		var totals [Statistics]uint64
		for s := range totals {
			totals[s] = counters[s].Load()
		}
		if totals != [Statistics]uint64{} {
			all[name] = totals
		}
	}
	return all
}

// Rule has the counters of a rule, or of a domain's unmatched descriptors. A nil Rule counts nothing.
type Rule struct {
	registry     *Registry
	domain       string
	withoutValue *Counters // hits without a value
	values       valueCounters
	overrides    valueCounters
}

// Rule returns the counters of a rule or, if rule is nil, of the domain's unmatched descriptors. It returns nil for
// unknown domains, which only [Registry.CountUnknownDomain] counts.
func (r *Registry) Rule(domain string, rule *descriptors.Rule) *Rule {
	if r == nil || domain == descriptors.UnknownDomainName {
		return nil
	}
	stats := &Rule{registry: r, domain: domain}
	if rule != nil {
		stats.withoutValue = r.get(ruleName(rule, nil, "", r.noDots))
	}
	return stats
}

// Counters returns the counters of a descriptor: its own if it has an override, those of its value if the rule has
// values, else the rule's. The rule is that of the configuration in force. Finding existing counters does not allocate.
func (r *Rule) Counters(rule *descriptors.Rule, d descriptors.Descriptor, override bool) *Counters {
	if r == nil {
		return nil
	}
	var room [descriptors.MaxValue]byte
	noDots := r.registry.noDots
	switch {
	case override:
		return r.overrides.get(r.registry, appendOverrideKey(room[:0], d), func(separate bool) string {
			if separate {
				return overrideName(r.domain, d, noDots)
			}
			return escapeName(r.domain + "." + history.OtherValue)
		})
	case rule == nil || len(rule.Values) == 0:
		return r.withoutValue
	}
	return r.values.get(r.registry, rule.AppendValue(room[:0], d), func(separate bool) string {
		if separate {
			return ruleName(rule, d, "", noDots)
		}
		return ruleName(rule, nil, history.OtherValue, noDots)
	})
}

// appendOverrideKey appends a map key for a descriptor with an override, or nothing if the key is too long.
func appendOverrideKey(dst []byte, d descriptors.Descriptor) []byte {
	for _, entry := range d {
		if len(dst)+len(entry.Key)+len(entry.Value)+2 > descriptors.MaxValue {
			return dst[:0]
		}
		dst = append(append(append(append(dst, entry.Key...), 0), entry.Value...), 0)
	}
	return dst
}

// valueCounters has counters by value or by descriptor. Values beyond MaxValues, and too long ones, share those of "".
type valueCounters struct {
	mu      sync.Mutex
	byValue map[string]*Counters // nil before the first
}

// get returns the counters of a value. name returns the name of their statistic, which is either separate for the value
// or shared by all others. Finding existing counters does not allocate.
func (v *valueCounters) get(registry *Registry, value []byte, name func(separate bool) string) *Counters {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byValue == nil {
		v.byValue = map[string]*Counters{"": registry.get(name(false))}
	}
	c := v.byValue[string(value)]
	switch {
	case c != nil:
		return c
	case len(v.byValue) > MaxValues:
		return v.byValue[""]
	}
	c = registry.get(name(true))
	v.byValue[string(value)] = c
	return c
}

// Counters are the statistics of one name. A nil Counters counts nothing.
type Counters [Statistics]atomic.Uint64

// Add adds hits to a statistic.
func (c *Counters) Add(s Statistic, hits uint64) {
	if c != nil && hits > 0 {
		c[s].Add(min(hits, maxHits))
	}
}

// Count counts the hits of a check that a store decided: fit hits are within the limit, and near of those are near it.
// WithinLimit counts only checks that fit as a whole.
func (c *Counters) Count(check *backend.Check, d *backend.Decision, fit, near uint64, shadow bool) {
	over := check.Hits - fit
	c.Add(TotalHits, check.Hits)
	if d.Allowed {
		c.Add(WithinLimit, check.Hits)
	}
	c.Add(NearLimit, near)
	c.Add(OverLimit, over)
	if d.Source == backend.FromDenyCache {
		c.Add(OverLimitWithLocalCache, over)
	}
	if shadow {
		c.Add(ShadowMode, over)
	}
}
