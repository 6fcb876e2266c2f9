package rlqs

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/descriptors"
)

const (
	// reportInterval is how often Envoy 1.40 reports a bucket, whatever it is told.
	reportInterval = 5 * time.Second
	// horizon is the time that a share is for: a token bucket that holds a second's hits, and fills for reportInterval,
	// lets through as many.
	horizon    = reportInterval + time.Second
	floorShare = 10      // the part of a capacity that is shared whatever is demanded: a tenth
	maxHits    = 1 << 40 // in a horizon; of more, the rest is not assigned
	maxWeight  = 1000
)

// Demand is what one Envoy would let through of a budget in a horizon.
type Demand struct {
	Hits   uint64 // at most maxHits
	Weight uint64 // from 1 to maxWeight
}

// Shares divides a capacity, in hits, by weighted max-min fairness: each gets what it demands, or as much for a unit of its
// weight as all others whose demand is not met. Each demands its part of a tenth at least, for those who begin. What nobody
// demands is shared by the weights. The shares add up to the capacity, if there is a demand.
func Shares(capacity uint64, demands []Demand) []uint64 {
	rest, weights := min(capacity, maxHits), uint64(0)
	for _, d := range demands {
		weights += d.Weight
	}
	shares, wants, order := make([]uint64, len(demands)), make([]uint64, len(demands)), make([]int, len(demands))
	for i, d := range demands {
		wants[i], order[i] = max(min(d.Hits, maxHits), rest/floorShare*d.Weight/weights), i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(wants[i]*demands[j].Weight, wants[j]*demands[i].Weight), cmp.Compare(i, j))
	})
	give := func(most func(i int) uint64) { // the least wanting first, as what they leave is for those behind them
		left := weights
		for _, i := range order {
			n := min(most(i), rest*demands[i].Weight/left)
			shares[i], rest, left = shares[i]+n, rest-n, left-demands[i].Weight
		}
	}
	give(func(i int) uint64 { return wants[i] })
	give(func(int) uint64 { return maxHits })
	return shares
}

// spent returns the limits of which hits that remain can be given away for a horizon. Those of the others have left their
// window before the next report: these limits are kept by their rate alone. It returns all if there are no others.
func spent(limits []descriptors.Limit) []descriptors.Limit {
	some := slices.DeleteFunc(slices.Clone(limits), paced)
	if len(some) == 0 {
		return limits
	}
	return some
}

func paced(l descriptors.Limit) bool {
	return l.Algorithm != descriptors.TokenBucket && l.Window <= reportInterval
}

// Capacity returns how many hits all Envoys together may let through in a horizon, by the strictest of some limits, given
// what remains of those that are not paced, and what Envoys have let through of it since their last reports.
func Capacity(limits []descriptors.Limit, remaining, unreported uint64) uint64 {
	capacity := uint64(maxHits)
	remaining -= min(remaining, unreported)
	for _, l := range limits {
		hits := mulDiv(min(l.Requests, maxHits), uint64(horizon), uint64(l.Window)) // by its rate
		switch {
		case l.Algorithm == descriptors.TokenBucket:
			hits += remaining
		case !paced(l):
			hits = remaining
		}
		capacity = min(capacity, hits)
	}
	return capacity
}

// mulDiv returns a × b / c without overflow, at most the largest number.
func mulDiv(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high >= c {
		return math.MaxUint64
	}
	q, _ := bits.Div64(high, low, c)
	return q
}

// action returns what the Envoy is to be told. A TTL has whole seconds: Envoy drops the rest, and takes no TTL for 0.
func (b *bucket) action(ttl time.Duration) *quota.RateLimitQuotaResponse_BucketAction {
	a := &quota.RateLimitQuotaResponse_BucketAction{BucketId: b.id}
	if b.kind == abandoned {
		a.BucketAction = &quota.RateLimitQuotaResponse_BucketAction_AbandonAction_{}
		return a
	}
	a.BucketAction = &quota.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
		QuotaAssignmentAction: &quota.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
			AssignmentTimeToLive: durationpb.New(max(time.Second, ttl.Truncate(time.Second))), RateLimitStrategy: strategy(b.kind, b.share)}}
	return a
}

// strategy returns what makes Envoy let through all, nothing, or a share, in hits a horizon, by a token bucket of a second's.
// Envoy 1.40 takes two token buckets for the same unless their sizes or the tokens of a fill differ, and divides by the
// whole seconds of the interval. A small share is filled by the horizon, so that any two differ, and none is rounded.
func strategy(kind string, share uint64) *envoytype.RateLimitStrategy {
	switch kind {
	case allowAll:
		return blanket(envoytype.RateLimitStrategy_ALLOW_ALL)
	case denyAll:
		return blanket(envoytype.RateLimitStrategy_DENY_ALL)
	}
	second := min(share/uint64(horizon/time.Second), math.MaxUint32)
	tokens, interval := share, horizon
	if second >= 100 { // as a bucket that fills by steps needs it; a hundredth at most is rounded
		tokens, interval = second, time.Second
	}
	return &envoytype.RateLimitStrategy{Strategy: &envoytype.RateLimitStrategy_TokenBucket{TokenBucket: &envoytype.TokenBucket{
		MaxTokens: uint32(max(1, second)), TokensPerFill: wrapperspb.UInt32(uint32(tokens)), FillInterval: durationpb.New(interval)}}}
}

func blanket(rule envoytype.RateLimitStrategy_BlanketRule) *envoytype.RateLimitStrategy {
	return &envoytype.RateLimitStrategy{Strategy: &envoytype.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}
}
