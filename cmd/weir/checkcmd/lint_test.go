package checkcmd

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

func TestCheckReportsLimitsThatNeverBind(t *testing.T) {
	rule := func(limits string) string {
		return "domain: shop\ndescriptors:\n- key: user\n  rate_limits:\n  - {" + strings.ReplaceAll(limits, "; ", "}\n  - {") + "}\n"
	}
	const ten, five = "requests_per_unit: 10, unit: minute", "requests_per_unit: 5, unit: hour"
	for name, tc := range map[string]struct{ file, want string }{
		"a larger limit of a shorter window": {rule(ten + ", name: a; " + five),
			"shop.yaml:3: domain shop, user: 10/minute a never denies what 5/hour beside it lets pass: leave it out"},
		"a smaller limit of a shorter window": {rule("requests_per_unit: 4, unit: minute; " + five), ""},
		"fixed windows that end together":     {rule(ten + ", algorithm: fixed_window; " + five + ", algorithm: fixed_window"), "10/minute never"},
		"fixed windows that do not": {rule("requests_per_unit: 9, unit: week, algorithm: fixed_window; " +
			"requests_per_unit: 9, unit: month, algorithm: fixed_window"), ""},
		"two algorithms": {rule(ten + ", algorithm: fixed_window; " + five), ""},
		"two buckets that are alike": {rule("requests_per_unit: 60, unit: hour, algorithm: token_bucket, burst: 2; " +
			"requests_per_unit: 1, unit: minute, algorithm: token_bucket, burst: 2"), "1/minute never denies what 60/hour"},
		"one that may step aside": {rule(ten+", name: a; "+five+", name: b") +
			"- {key: vip, rate_limit: {requests_per_unit: 1, unit: day, replaces: [{name: b}]}}\n", ""},
		"two that step aside together": {rule(ten+", name: a; "+five+", name: b") +
			"- {key: vip, rate_limit: {requests_per_unit: 1, unit: day, replaces: [{name: b}, {name: a}]}}\n", "10/minute a never denies"},
	} {
		code, _, errs := runOn(t, tc.file, Command{Path: "limits"}, "")
		if code != 0 || strings.Count(errs, "never denies") != min(1, len(tc.want)) || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit code %d, %s; want 0 and, once or not at all: %q", name, code, errs, tc.want)
		}
	}
}

// What covers another limit denies whatever that one denies: beside it that one changes no verdict, whatever is asked,
// charged and given back.
func TestCoveredLimitChangesNoVerdict(t *testing.T) {
	const seed = 24
	r := rand.New(rand.NewPCG(seed, seed))
	random := func(a descriptors.Algorithm) descriptors.Limit {
		l, err := descriptors.NewLimit(r.Uint64N(6), descriptors.Second+descriptors.Unit(r.IntN(2)), 1+r.Uint32N(12), a, 0)
		for _, precision := range []time.Duration{50 * time.Millisecond, time.Second} {
			if finer, wrong := descriptors.NewLimit(l.Requests, l.Unit, l.Multiplier, a, precision); wrong == nil && r.IntN(3) == 0 {
				l = finer
			}
		}
		if a == descriptors.TokenBucket && l.Requests > 0 {
			l, err = l.WithBurst(1 + r.Uint64N(6))
		}
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	covered := make(map[descriptors.Algorithm]int)
	for range 60_000 {
		a := descriptors.SlidingWindow + descriptors.Algorithm(r.IntN(4))
		by, l := random(a), random(a)
		if by.SameState(&l) || !by.Covers(&l) {
			continue
		}
		covered[a]++
		limits, charge := []descriptors.Limit{by, l}, descriptors.ChargeByAlgorithm+descriptors.Charge(r.IntN(3))
		states := []window.State{window.NewState(&by), window.NewState(&l)}
		decide := func(op backend.Op, hits uint64, limits []descriptors.Limit, now window.Instant) bool {
			return window.Decide(states, &backend.Check{Op: op, Limits: limits, Hits: hits, Charge: charge}, now).Allowed
		}
		now := window.Instant(1_763_726_400_000_000 + r.Int64N(1e9))
		for range 60 {
			now = now.Plus(time.Duration(r.Int64N(int64(l.Window) / 2)))
			hits := 1 + r.Uint64N(3)
			if r.IntN(8) == 0 {
				decide(backend.Refund, hits, limits, now)
			}
			alone, both := decide(backend.Look, 0, limits[:1], now), decide(backend.Look, 0, limits, now)
			fits := states[0].Sum(now)+hits <= by.Capacity()
			if alone != both || fits != decide(backend.Count, hits, limits, now) {
				t.Fatalf("seed %d: %v (burst %d, precision %v) beside %v (burst %d, precision %v), both %v: it denies what that one lets pass",
					seed, l, l.Burst, l.Precision, by, by.Burst, by.Precision, a)
			}
		}
	}
	for a := descriptors.SlidingWindow; a <= descriptors.TokenBucket; a++ {
		if covered[a] < 100 {
			t.Errorf("of %v only %d pairs were tried: want 100 or more", a, covered[a])
		}
	}
}
