package hits

import (
	"sync"
	"sync/atomic"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Kind is one of the numbers that envoyproxy/ratelimit counts for each rule.
type Kind uint8

// The kinds. They do not add up: TotalHits are all hits that were asked about, also where no store answered; of a
// charge that straddles a limit one part is over it, and the other near it or nowhere.
const (
	TotalHits Kind = iota
	OverLimit
	NearLimit
	OverLimitWithLocalCache // part of OverLimit
	WithinLimit
	ShadowMode // part of OverLimit
	TotalNegativeHits
	Kinds = int(TotalNegativeHits) + 1
)

// String returns the kind's name in envoyproxy/ratelimit's statistics.
func (k Kind) String() string {
	return [Kinds]string{"total_hits", "over_limit", "near_limit", "over_limit_with_local_cache", "within_limit",
		"shadow_mode", "total_negative_hits"}[k]
}

// ratelimitCounters counts a rule's hits as envoyproxy/ratelimit does. Its methods neither wait nor allocate, and may be
// called by any number of goroutines. A nil ratelimitCounters counts nothing: nobody reads these statistics then.
type ratelimitCounters struct{ totals [Kinds]atomic.Uint64 }

func (t *ratelimitCounters) add(k Kind, hits uint64) {
	if t != nil && hits > 0 {
		t.totals[k].Add(min(hits, MaxHits))
	}
}

// ratelimitOf returns where hits are counted as envoyproxy/ratelimit does: by their value, where their rule tells
// values apart.
func (c *Counter) ratelimitOf(h *Hit) *ratelimitCounters {
	if c.byValue == nil || h.Rule == nil || len(h.Rule.Values) == 0 {
		return c.ratelimit
	}
	return c.byValue.of(&c.recorder.ratelimit, h.Rule, h.Descriptor)
}

// count counts hits that a store decided about. What fits is within the limit only as a whole: of a charge that
// straddles it the part that fits is near or nowhere.
func (t *ratelimitCounters) count(check *backend.Check, d *backend.Decision, fit, near uint64, shadow bool) {
	over := check.Hits - fit
	t.add(TotalHits, check.Hits)
	if d.Allowed {
		t.add(WithinLimit, check.Hits)
	}
	t.add(NearLimit, near)
	t.add(OverLimit, over)
	if d.Source == backend.FromDenyCache {
		t.add(OverLimitWithLocalCache, over)
	}
	if shadow {
		t.add(ShadowMode, over)
	}
}

// MaxRatelimitValues is how many values a rule that tells values apart has counters of this kind for, the first ones.
const MaxRatelimitValues = 100

// byValue are the counters of a rule that tells values apart, by value; "" has those of values that came too late, or are
// too long.
type byValue struct {
	mu    sync.Mutex
	known map[string]*ratelimitCounters // nil before the first
}

// of returns the counters of a descriptor's value. Finding a known one takes no allocation.
func (b *byValue) of(all *ratelimitTotals, rule *descriptors.Rule, d descriptors.Descriptor) *ratelimitCounters {
	var room [maxValue]byte
	text := appendValue(room[:0], rule, d)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]*ratelimitCounters{"": all.of(rule.Metric(nil, history.OtherValue))}
	}
	known := b.known[string(text)]
	switch {
	case known != nil:
		return known
	case len(b.known) > MaxRatelimitValues:
		return b.known[""]
	}
	known = all.of(rule.Metric(d, ""))
	b.known[string(text)] = known
	return known
}

// maxNames is how many names are counted by themselves, so that configurations that come and go do not fill memory:
// some 50 MB.
const maxNames = 1 << 18

// ratelimitTotals hold the counters by name, also of rules that are gone: what was counted under a name never goes
// down.
type ratelimitTotals struct {
	mu     sync.Mutex
	byName map[string]*ratelimitCounters // nil if nothing is counted so
}

// of returns the counters under a name, made if there are none, nil if nothing is counted so. Once there are too many
// names, more go under that of all others.
func (t *ratelimitTotals) of(name string) *ratelimitCounters {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName == nil {
		return nil
	}
	if t.byName[name] == nil && len(t.byName) >= maxNames {
		name = history.OtherValue + "." + history.OtherValue
	}
	if t.byName[name] == nil {
		t.byName[name] = new(ratelimitCounters)
	}
	return t.byName[name]
}

// RatelimitTotals returns the totals since the start by name, without what is all zero. A total never goes down.
func (r *Recorder) RatelimitTotals() map[string][Kinds]uint64 {
	r.ratelimit.mu.Lock()
	defer r.ratelimit.mu.Unlock()
	all := make(map[string][Kinds]uint64, len(r.ratelimit.byName))
	for name, counted := range r.ratelimit.byName {
		var totals [Kinds]uint64
		for k := range totals {
			totals[k] = counted.totals[k].Load()
		}
		if totals != [Kinds]uint64{} {
			all[name] = totals
		}
	}
	return all
}
