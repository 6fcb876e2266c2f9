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
	// reportInterval is how often Envoy 1.40 reports a bucket; it cannot be configured.
	reportInterval = 5 * time.Second
	// horizon is the time whose hits make a share: until the next report, a token bucket that holds the hits of a second
	// admits these and the hits of reportInterval.
	horizon      = reportInterval + time.Second
	floorDivisor = 10      // each Envoy may demand its part of a tenth of the capacity, whatever it reports
	maxHits      = 1 << 40 // per horizon; the rest is not assigned
	maxWeight    = 1000
)

// Demand is how many hits one Envoy would admit of a budget in a horizon.
type Demand struct {
	Hits   uint64 // at most maxHits
	Weight uint64 // 1 to maxWeight
}

// Shares divides a capacity, in hits, by weighted max-min fairness: each Envoy gets its demand or, if that cannot be
// met, as many hits per weight as all others whose demands cannot be met. Each demand counts as at least the Envoy's
// part of a tenth of the capacity, for Envoys that have just begun. Capacity that nobody demands is divided by weight.
// The shares add up to the capacity, if there is a demand.
func Shares(capacity uint64, demands []Demand) []uint64 {
	rest, weights := min(capacity, maxHits), uint64(0)
	for _, d := range demands {
		weights += d.Weight
	}
	shares, wants, order := make([]uint64, len(demands)), make([]uint64, len(demands)), make([]int, len(demands))
	for i, d := range demands {
		wants[i], order[i] = max(min(d.Hits, maxHits), rest/floorDivisor*d.Weight/weights), i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(wants[i]*demands[j].Weight, wants[j]*demands[i].Weight), cmp.Compare(i, j))
	})
	distribute := func(most func(i int) uint64) { // smallest demand first, because what it leaves is for the others
		weightLeft := weights
		for _, i := range order {
			n := min(most(i), rest*demands[i].Weight/weightLeft)
			shares[i], rest, weightLeft = shares[i]+n, rest-n, weightLeft-demands[i].Weight
		}
	}
	distribute(func(i int) uint64 { return wants[i] })
	distribute(func(int) uint64 { return maxHits })
	return shares
}

// assignable returns the limits whose remaining hits can be assigned for a horizon. The others are rateOnly. If there are
// only rateOnly limits, it returns all.
func assignable(limits []descriptors.Limit) []descriptors.Limit {
	some := slices.DeleteFunc(slices.Clone(limits), rateOnly)
	if len(some) == 0 {
		return limits
	}
	return some
}

// rateOnly reports whether a limit is enforced by its rate alone, because hits leave its window before the next report.
func rateOnly(l descriptors.Limit) bool {
	return l.Algorithm != descriptors.TokenBucket && l.Window <= reportInterval
}

// Capacity returns how many hits all Envoys together may admit in a horizon, by the strictest of the limits. remaining
// is the least remaining hits of the limits that are not rateOnly; unreported is what Envoys have admitted since their
// last reports.
func Capacity(limits []descriptors.Limit, remaining, unreported uint64) uint64 {
	capacity := uint64(maxHits)
	remaining -= min(remaining, unreported)
	for _, l := range limits {
		hits := mulDiv(min(l.Requests, maxHits), uint64(horizon), uint64(l.Window)) // by its rate
		switch {
		case l.Algorithm == descriptors.TokenBucket:
			hits += remaining
		case !rateOnly(l):
			hits = remaining
		}
		capacity = min(capacity, hits)
	}
	return capacity
}

// mulDiv returns a × b / c, or math.MaxUint64 if that overflows.
func mulDiv(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high >= c {
		return math.MaxUint64
	}
	q, _ := bits.Div64(high, low, c)
	return q
}

// action returns the message to Envoy. Its TTL is at least a second and in whole seconds: Envoy truncates, and treats
// 0 as no TTL.
func (b *bucket) action(ttl time.Duration) *quota.RateLimitQuotaResponse_BucketAction {
	a := &quota.RateLimitQuotaResponse_BucketAction{BucketId: b.id}
	if b.kind == kindAbandoned {
		a.BucketAction = &quota.RateLimitQuotaResponse_BucketAction_AbandonAction_{}
		return a
	}
	a.BucketAction = &quota.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
		QuotaAssignmentAction: &quota.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
			AssignmentTimeToLive: durationpb.New(max(time.Second, ttl.Truncate(time.Second))), RateLimitStrategy: strategy(b.kind, b.share)}}
	return a
}

// strategy returns Envoy's strategy for a kind of assignment. A share, in hits per horizon, becomes a token bucket that
// holds the hits of a second. Envoy 1.40 keeps its token bucket unless its size or tokens per fill change, divides by
// whole seconds, and ignores requests_per_time_unit. A small share fills the bucket once per horizon, so that no share is
// rounded, and any two differ.
func strategy(kind string, share uint64) *envoytype.RateLimitStrategy {
	switch kind {
	case kindAllowAll:
		return blanket(envoytype.RateLimitStrategy_ALLOW_ALL)
	case kindDenyAll:
		return blanket(envoytype.RateLimitStrategy_DENY_ALL)
	}
	second := min(share/uint64(horizon/time.Second), math.MaxUint32)
	tokens, interval := share, horizon
	if second >= 100 { // fills every second; rounding loses at most a hundredth
		tokens, interval = second, time.Second
	}
	return &envoytype.RateLimitStrategy{Strategy: &envoytype.RateLimitStrategy_TokenBucket{TokenBucket: &envoytype.TokenBucket{
		MaxTokens: uint32(max(1, second)), TokensPerFill: wrapperspb.UInt32(uint32(tokens)), FillInterval: durationpb.New(interval)}}}
}

func blanket(rule envoytype.RateLimitStrategy_BlanketRule) *envoytype.RateLimitStrategy {
	return &envoytype.RateLimitStrategy{Strategy: &envoytype.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}
}
