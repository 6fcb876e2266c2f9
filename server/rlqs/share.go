// Package rlqs serves Envoy's RateLimitQuotaService: Envoys report what they let through, and get shares of the rules'
// budgets, so that a request asks nobody. QUOTAS.md tells an operator what that promises.
package rlqs

import (
	"math"
	"math/bits"
	"sort"
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
	Hits   uint64
	Weight uint64 // from 1 to maxWeight
}

// Shares divides a capacity, in hits, by weighted max-min fairness: each gets what it demands, or as much for a unit of its
// weight as all others whose demand is not met. A tenth goes to all by their weights first, for those who begin, and what
// nobody demands likewise at last. The shares add up to the capacity, if there is a demand.
func Shares(capacity uint64, demands []Demand) []uint64 {
	capacity = min(capacity, maxHits)
	shares, rest, weights := make([]uint64, len(demands)), capacity, uint64(0)
	for _, d := range demands {
		weights += d.Weight
	}
	give := func(hits func(i int) uint64) {
		for i := range demands {
			n := min(hits(i), rest)
			shares[i], rest = shares[i]+n, rest-n
		}
	}
	give(func(i int) uint64 { return capacity / floorShare * demands[i].Weight / weights })
	lacks := make([]uint64, len(demands)) // beyond its floor
	for i, d := range demands {
		lacks[i] = min(d.Hits, maxHits) - min(d.Hits, maxHits, shares[i])
	}
	fits := func(level int) bool { // for each unit of weight
		sum := uint64(0)
		for i, d := range demands {
			sum += min(lacks[i], uint64(level)*d.Weight)
		}
		return sum <= rest
	}
	level := sort.Search(int(rest)+1, func(level int) bool { return !fits(level) }) - 1
	met := level == int(rest)
	give(func(i int) uint64 { return min(lacks[i], uint64(level)*demands[i].Weight) })
	if spare := rest; met {
		give(func(i int) uint64 { return spare * demands[i].Weight / weights })
	}
	for rest > 0 && len(demands) > 0 { // fewer than all weigh
		give(func(int) uint64 { return 1 })
	}
	return shares
}

// spent returns the limits of which hits that remain can be given away for a horizon. Those of the others have left their
// window before the next report: these limits are kept by their rate alone. nil if there are none.
func spent(limits []descriptors.Limit) (some []descriptors.Limit) {
	for i := range limits {
		if !paced(&limits[i]) {
			some = append(some, limits[i])
		}
	}
	return some
}

func paced(l *descriptors.Limit) bool {
	return l.Algorithm != descriptors.TokenBucket && l.Window <= reportInterval
}

// Capacity returns how many hits all Envoys together may let through in a horizon, by the strictest of some limits, given
// what remains of those that are not paced, and what Envoys have let through of it since their last reports.
func Capacity(limits []descriptors.Limit, remaining, unreported uint64) uint64 {
	capacity := uint64(maxHits)
	remaining -= min(remaining, unreported)
	for i := range limits {
		l := &limits[i]
		inHorizon := mulDiv(min(l.Requests, maxHits), uint64(horizon), uint64(l.Window))
		switch {
		case l.Algorithm == descriptors.TokenBucket:
			capacity = min(capacity, remaining+inHorizon)
		case paced(l):
			capacity = min(capacity, inHorizon)
		default:
			capacity = min(capacity, remaining)
		}
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

// strategy returns what makes Envoy let through a share, in hits a horizon: nothing, or a token bucket of a second's hits.
// Envoy 1.40 takes two token buckets for the same unless their sizes or the tokens of a fill differ, and divides by the
// whole seconds of the interval. A small share is filled by the horizon, so that any two differ, and none is rounded.
func strategy(share uint64) *envoytype.RateLimitStrategy {
	second := share / uint64(horizon/time.Second)
	bucket := &envoytype.TokenBucket{MaxTokens: uint32(max(1, min(second, math.MaxUint32)))}
	tokens, interval := share, horizon
	switch {
	case share == 0:
		return blanket(envoytype.RateLimitStrategy_DENY_ALL)
	case second >= 100: // as a bucket that fills by steps needs it; a hundredth at most is rounded
		tokens, interval = min(second, math.MaxUint32), time.Second
	}
	bucket.TokensPerFill, bucket.FillInterval = wrapperspb.UInt32(uint32(tokens)), durationpb.New(interval)
	return &envoytype.RateLimitStrategy{Strategy: &envoytype.RateLimitStrategy_TokenBucket{TokenBucket: bucket}}
}

func blanket(rule envoytype.RateLimitStrategy_BlanketRule) *envoytype.RateLimitStrategy {
	return &envoytype.RateLimitStrategy{Strategy: &envoytype.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}
}

type action = quota.RateLimitQuotaResponse_BucketAction

// assign returns the action that assigns a strategy, for whole seconds: Envoy drops the rest, and takes no TTL for 0.
func assign(id *quota.BucketId, s *envoytype.RateLimitStrategy, ttl time.Duration) *action {
	return &action{BucketId: id, BucketAction: &quota.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
		QuotaAssignmentAction: &quota.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
			AssignmentTimeToLive: durationpb.New(max(time.Second, ttl.Truncate(time.Second))), RateLimitStrategy: s}}}
}

// abandon returns the action that makes Envoy forget a bucket.
func abandon(id *quota.BucketId) *action {
	return &action{BucketId: id, BucketAction: &quota.RateLimitQuotaResponse_BucketAction_AbandonAction_{}}
}
