package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

const perHour = "[{key: user, rate_limit: {requests_per_unit: 100000, unit: hour}}]"

// own returns the override of a request.
func own(requests uint32, unit descriptors.Unit) limit.Override {
	return limit.Override{Requests: requests, Unit: unit}
}

// TestLeasesUnderTwoLimitsAdmitTheSame sends requests with two descriptors of the same entries, so of one key, that
// each bring a limit.
func TestLeasesUnderTwoLimitsAdmitTheSame(t *testing.T) {
	t.Parallel()
	c := on(t, topology.Single)
	for _, limits := range [][2]limit.Override{{own(500, descriptors.Second), own(600, descriptors.Minute)},
		{own(60_000, descriptors.Minute), own(1_000_000, descriptors.Hour)}} {
		admitted := make(map[bool]int)
		for _, leases := range []bool{false, true} {
			s := serve(t, c, 1, leases, perHour)
			for range 900 {
				s.passes(time.Second / 120)
				both := s.replicas[0].asks(user(fmt.Sprint(limits), limits[0]), user(fmt.Sprint(limits), limits[1]))
				if both[0].Allowed && both[1].Allowed {
					admitted[leases]++
				}
			}
			if granted, used := s.lent(); leases {
				wantUsed(t, fmt.Sprintf("900 requests under %+v", limits), granted, used)
			}
		}
		if admitted[true] != admitted[false] {
			t.Errorf("of 900 requests under %+v %d are admitted with leases, and %d without; want the same", limits, admitted[true],
				admitted[false])
		}
	}
}

// wantUsed wants four of five granted hits to be used.
func wantUsed(t *testing.T, which string, granted, used uint64) {
	t.Helper()
	t.Logf("%s: %d hits were granted, and %d used", which, granted, used)
	if 5*used < 4*granted {
		t.Errorf("%s: %d of %d hits that were granted are used; want 80 %% at least", which, used, granted)
	}
}

// TestSmallLimitCountsNoLeasedHits counts a key under a rule, an override that shares the state of the rule, and one
// that does not. Hits that are leased under the rule must not use up the small override.
func TestSmallLimitCountsNoLeasedHits(t *testing.T) {
	t.Parallel()
	c := on(t, topology.Single)
	for _, leases := range []bool{false, true} {
		r := serve(t, c, 1, leases, perHour).replicas[0]
		ask := func(of ...limit.Override) bool {
			r.of.passes(50 * time.Millisecond)
			return r.asks(user("ann", of...))[0].Allowed
		}
		for range 10 { // until the key has a rate
			ask(own(600, descriptors.Minute))
		}
		small := own(3, descriptors.Hour)
		first, byRule, elsewhere, third := ask(small), ask(), ask(own(600, descriptors.Minute)), ask(small)
		if !first || !byRule || !elsewhere || !third {
			t.Errorf("leases %v: by 3 an hour hits are admitted %v, %v and %v, the second one by the rule, and one by the minute %v; want all",
				leases, first, byRule, third, elsewhere)
		}
		if ask(small) {
			t.Errorf("leases %v: a fourth hit is admitted by 3 an hour", leases)
		}
	}
}

// tails are loads in which most keys are rare.
var tails = []struct {
	name   string
	rule   string
	perSec int
	key    func(r *rand.Rand) func(i int) int
}{
	{"Zipf's law, by minutes", "{requests_per_unit: 10000, unit: minute}", 2000, zipf},
	{"Zipf's law, by hours", "{requests_per_unit: 100000, unit: hour}", 2000, zipf},
	{"1,000 keys by chance, by minutes", "{requests_per_unit: 1000, unit: minute}", 1000, func(r *rand.Rand) func(int) int {
		return func(int) int { return r.IntN(1000) }
	}},
	{"1,000 keys by chance, by hours", "{requests_per_unit: 10000, unit: hour}", 1000, func(r *rand.Rand) func(int) int {
		return func(int) int { return r.IntN(1000) }
	}},
	{"1,000 keys once a second, by minutes", "{requests_per_unit: 1000, unit: minute}", 1000, everySecond},
	{"1,000 keys once a second, by hours", "{requests_per_unit: 10000, unit: hour}", 1000, everySecond},
}

func zipf(r *rand.Rand) func(int) int {
	z := rand.NewZipf(r, 1.1, 1, 99_999)
	return func(int) int { return int(z.Uint64()) }
}

func everySecond(*rand.Rand) func(int) int { return func(i int) int { return i % 1000 } }

// TestOnlyHotKeysLease wants granted hits to be used, and rare keys to cost no more than without leases. A check that
// asks about a lease counts twice, as it costs Redis twice as much.
func TestOnlyHotKeysLease(t *testing.T) {
	t.Parallel()
	c := on(t, topology.Single)
	for _, tail := range tails {
		s := serve(t, c, 1, true, fmt.Sprintf("[{key: user, rate_limit: %s}]", tail.rule))
		r, draw := s.replicas[0], tail.key(rand.New(rand.NewPCG(1, 1)))
		const together, seconds = 10, 12 // descriptors of a request
		asked := 0
		for range tail.perSec * seconds / together {
			s.passes(together * time.Second / time.Duration(tail.perSec))
			all := make([]limit.Descriptor, together)
			for i := range all {
				all[i] = user(fmt.Sprint(tail.name, draw(asked)))
				asked++
			}
			r.asks(all...)
		}
		granted, used := s.lent()
		wantUsed(t, tail.name, granted, used)
		if cost := r.checks + r.questions; cost > asked {
			t.Errorf("%s: %d checks are asked as %d questions, %d of them about leases, which are twice as dear; want no more than "+
				"without leases", tail.name, asked, r.checks, r.questions)
		}
	}
}
