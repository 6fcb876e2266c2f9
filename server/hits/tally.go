package hits

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/weirproxy/weir/backend/history"
)

// Kind is one of the numbers that envoyproxy/ratelimit counts for each rule.
type Kind uint8

// The kinds. They do not add up: TotalHits are all hits that were asked about, also where no store answered; of a charge
// that straddles a limit one part is over it, and the other near it or nowhere.
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

// Tally counts a rule's hits as envoyproxy/ratelimit does. Its methods neither wait nor allocate, and may be called by
// any number of goroutines. A nil Tally counts nothing: that is what there is while nobody reads these statistics.
type Tally struct {
	name   string
	totals [Kinds]atomic.Uint64
}

// Ask counts hits of a check, whatever becomes of it.
func (t *Tally) Ask(hits uint64) { t.add(TotalHits, hits) }

// GiveBack counts hits of a refund.
func (t *Tally) GiveBack(hits uint64) { t.add(TotalNegativeHits, hits) }

// count counts what a store has decided: all hits are within the limit, or some are over it.
func (t *Tally) count(v *Verdict, near, over uint64) {
	if t == nil {
		return
	}
	if v.Allowed {
		t.add(WithinLimit, v.Hits)
	}
	t.add(NearLimit, near)
	t.add(OverLimit, over)
	if v.Remembered {
		t.add(OverLimitWithLocalCache, over)
	}
	if v.Shadow {
		t.add(ShadowMode, over)
	}
}

func (t *Tally) add(k Kind, hits uint64) {
	if t != nil && hits > 0 {
		t.totals[k].Add(min(hits, MaxHits))
	}
}

// addTo adds the totals to sum.
func (t *Tally) addTo(sum *[Kinds]uint64) {
	for k := range sum {
		sum[k] += t.totals[k].Load()
	}
}

// maxPast is how many names of rules that are gone are kept, so that configurations that come and go do not fill memory.
const maxPast = 10_000

// past holds by name what the tallies of rules that are gone held: a sum over rules never goes down.
type past map[string]*[Kinds]uint64

// keep adds what a tally holds. Once there are too many names, what more there is goes under that of all others.
func (p *past) keep(t *Tally) {
	if *p == nil {
		*p = make(past)
	}
	if t.empty() {
		return
	}
	name := t.name
	if (*p)[name] == nil && len(*p) >= maxPast {
		name = history.OtherValue + "." + history.OtherValue
	}
	if (*p)[name] == nil {
		(*p)[name] = new([Kinds]uint64)
	}
	t.addTo((*p)[name])
}

// tallies calls do with the rule's tallies.
func (s *ruleHits) tallies(do func(t *Tally)) {
	if s.own.tally == nil {
		return
	}
	do(s.own.tally)
	s.values.Load().each(func(_ string, c *Counter) { do(c.tally) })
}

func (t *Tally) empty() bool {
	var sum [Kinds]uint64
	t.addTo(&sum)
	return sum == [Kinds]uint64{}
}

// Tallies returns the totals since the start by name, without what is all zero. A total never goes down.
func (r *Recorder) Tallies() map[string][Kinds]uint64 {
	r.mu.Lock()
	all := slices.AppendSeq(make([]*ruleHits, 0, len(r.rules)), maps.Values(r.rules))
	sums := make(map[string][Kinds]uint64, len(all)+len(r.past))
	for name, sum := range r.past {
		sums[name] = *sum
	}
	r.mu.Unlock()
	for _, s := range all {
		s.tallies(func(t *Tally) {
			if !t.empty() {
				sum := sums[t.name]
				t.addTo(&sum)
				sums[t.name] = sum
			}
		})
	}
	return sums
}

// NotFound returns how many descriptors had a domain that the configuration in force did not have.
func (r *Recorder) NotFound() uint64 { return r.notFound.Load() }
