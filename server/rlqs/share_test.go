package rlqs

import (
	"math/rand/v2"
	"testing"
	"time"

	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weirproxy/weir/descriptors"
)

// sharesByHit is a naive Shares: it gives each hit to the Envoy with the least share per weight among those whose demand
// is not met.
func sharesByHit(capacity uint64, demands []Demand) []uint64 {
	shares := make([]uint64, len(demands))
	all := uint64(0)
	for _, d := range demands {
		all += d.Weight
	}
	rest := capacity
	for i, d := range demands {
		shares[i] = capacity / floorDivisor * d.Weight / all
		rest -= shares[i]
	}
	for _, lacking := range []bool{true, false} {
		given := make([]uint64, len(demands))
		for ; rest > 0; rest-- {
			next := -1
			for i, d := range demands {
				if lacking && shares[i] >= d.Hits {
					continue
				}
				if next < 0 || (given[i]+1)*demands[next].Weight < (given[next]+1)*d.Weight {
					next = i
				}
			}
			if next < 0 {
				break
			}
			shares[next]++
			given[next]++
		}
	}
	return shares
}

func TestSharesMatchSharingHitByHit(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		capacity, demands := random.Uint64N(1500), make([]Demand, 1+random.IntN(9))
		for i := range demands {
			demands[i] = Demand{Hits: random.Uint64N(1 + random.Uint64N(2000)), Weight: 1 + random.Uint64N(4)}
		}
		got, want, sum := Shares(capacity, demands), sharesByHit(capacity, demands), uint64(0)
		for i := range demands {
			sum += got[i]
			if diff := int64(got[i]) - int64(want[i]); diff < -int64(len(demands)) || diff > int64(len(demands)) {
				t.Fatalf("seed %d: capacity %d, demands %v: %v, want %v but for rounding", seed, capacity, demands, got, want)
			}
		}
		if sum != capacity {
			t.Fatalf("seed %d: the shares %v add up to %d, want the capacity of %d", seed, got, sum, capacity)
		}
	}
}

func TestSharesGiveUnusedHitsToDemand(t *testing.T) {
	got := Shares(6000, []Demand{{Hits: 100_000, Weight: 1}, {Weight: 1}, {Hits: 50, Weight: 1}})
	if got[0] < 5400 || got[1] != 200 || got[2] != 200 {
		t.Errorf("of 6000 a hungry one and two idle ones get %v, want all but their floors of 200", got)
	}
	if got := Shares(1<<60, []Demand{{Hits: 1 << 63, Weight: maxWeight}, {Hits: 1 << 63, Weight: 1}}); got[0] < 900*got[1] || got[0]+got[1] != maxHits {
		t.Errorf("weights of 1000 and 1 get %v", got)
	}
}

func limitOf(t *testing.T, requests uint64, unit descriptors.Unit, multiplier uint32, a descriptors.Algorithm) descriptors.Limit {
	t.Helper()
	l, err := descriptors.NewLimit(requests, unit, multiplier, a, 0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCapacityFollowsTheStrictestLimit(t *testing.T) {
	second := limitOf(t, 100, descriptors.Second, 1, descriptors.SlidingWindow)
	hour := limitOf(t, 10_000, descriptors.Hour, 1, descriptors.FixedWindow)
	bucket := limitOf(t, 60, descriptors.Minute, 1, descriptors.TokenBucket)
	for _, c := range []struct {
		limits                      []descriptors.Limit
		remaining, unreported, want uint64
	}{
		{[]descriptors.Limit{second}, 0, 500, 600}, // 100 a second, whatever counts now
		{[]descriptors.Limit{second, hour}, 9000, 500, 600},
		{[]descriptors.Limit{second, hour}, 300, 100, 200},
		{[]descriptors.Limit{hour}, 300, 301, 0},
		{[]descriptors.Limit{bucket}, 10, 0, 16}, // six leak in a horizon
	} {
		if got := Capacity(c.limits, c.remaining, c.unreported); got != c.want {
			t.Errorf("%v with %d left and %d unreported: %d, want %d", c.limits, c.remaining, c.unreported, got, c.want)
		}
	}
	if got := assignable([]descriptors.Limit{second, hour, bucket}); len(got) != 2 || got[0].Window != time.Hour {
		t.Errorf("limits that are spent: %v, want the hour and the bucket", got)
	}
}

// The test simulates how Envoy 1.40 applies a strategy: see reference/envoy-api.md, 2.2.
func TestStrategyAdmitsItsShare(t *testing.T) {
	type compared struct{ max, tokens uint32 } // Envoy compares these to detect a change
	var before compared
	for share := uint64(1); share < 100_000; share += 1 + share/97 {
		b := strategy("share", share).GetTokenBucket()
		seconds, tokens := b.FillInterval.AsDuration().Seconds(), b.TokensPerFill.GetValue()
		if b.FillInterval.Nanos != 0 || seconds < 1 || b.MaxTokens == 0 || tokens == 0 {
			t.Fatalf("a share of %d: %v, want whole seconds and tokens", share, b)
		}
		passes := float64(b.MaxTokens) + float64(tokens)/seconds*reportInterval.Seconds()
		if uint64(passes) > max(share, 1) || passes < float64(share)*0.99-1 {
			t.Errorf("a share of %d lets %v through in %v", share, passes, reportInterval)
		}
		if now := (compared{b.MaxTokens, tokens}); share < 600 && now == before {
			t.Errorf("a share of %d is the one before for Envoy: %v", share, b)
		} else {
			before = now
		}
	}
	if got := strategy(kindDenyAll, 0).GetBlanketRule(); got != envoytype.RateLimitStrategy_DENY_ALL {
		t.Errorf("no share: %v", got)
	}
	if b := strategy("share", 1<<50).GetTokenBucket(); b.MaxTokens != 1<<32-1 {
		t.Errorf("a share beyond 32 bits: %v", b)
	}
	for ttl, want := range map[time.Duration]int64{0: 1, 1500 * time.Millisecond: 1, 15 * time.Second: 15} {
		a := (&bucket{kind: kindDenyAll}).action(ttl).GetQuotaAssignmentAction()
		if got := a.AssignmentTimeToLive; got.GetSeconds() != want || got.GetNanos() != 0 || a.RateLimitStrategy == nil {
			t.Errorf("a TTL of %v: %v, want %d s and a strategy", ttl, a, want)
		}
	}
}
