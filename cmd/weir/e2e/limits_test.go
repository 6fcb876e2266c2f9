package e2e_test

import (
	"fmt"
	"strconv"
	"testing"
)

// A window of an hour has buckets of a minute: the oldest hit leaves after 60 to 61 minutes.
const hourFrom, hourTo = 3600, 3660

func TestUnderTheLimitPassesWithHeadersAndOverItIsRefused(t *testing.T) {
	t.Parallel()
	e := startEnvoy(t, startWeir(t, `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 3 }
    message: Three requests an hour are enough for anyone.
`), failOpen)
	e.get(t, "/", "", "basic", "ann").wants(t, "three requests an hour pass",
		answer{status: 200, limit: "3, 3;w=3600", remaining: "2"}, hourFrom, hourTo)
	for _, remaining := range []string{"1", "0"} {
		e.get(t, "/", "", "basic", "ann").wants(t, "three requests an hour pass",
			answer{status: 200, limit: "3, 3;w=3600", remaining: remaining}, hourFrom-600, hourTo) // some time after the first
	}
	for range 2 {
		e.get(t, "/", "", "basic", "ann").wants(t, "the fourth and fifth are refused, with the rule's message", answer{
			status: 429, limit: "3, 3;w=3600", remaining: "0", body: "Three requests an hour are enough for anyone.",
		}, hourFrom-600, hourTo)
	}
	e.get(t, "/", "", "basic", "bob").wants(t, "another user has a limit of his own",
		answer{status: 200, limit: "3, 3;w=3600", remaining: "2"}, hourFrom, hourTo)
	e.get(t, "/", "", "no such plan", "ann").wants(t, "what no rule matches passes without headers",
		answer{status: 200}, -1, -1)
}

func TestAShadowRuleShowsItsLimitAndNeverRefuses(t *testing.T) {
	t.Parallel()
	e := startEnvoy(t, startWeir(t, `
- key: plan
  value: trial
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2 }
    shadow_mode: true
`), failOpen)
	for _, remaining := range []string{"1", "0", "0", "0"} {
		e.get(t, "/", "", "trial", "ann").wants(t, "a shadow rule lets everything pass, over its limit too",
			answer{status: 200, limit: "2, 2;w=3600", remaining: remaining}, hourFrom-600, hourTo)
	}
}

func TestSeveralLimitsOnOneUserAllHoldAndTheStrictestIsShown(t *testing.T) {
	t.Parallel()
	e := startEnvoy(t, startWeir(t, `
- key: plan
  value: burst
  descriptors:
  - key: user
    rate_limits:
    - { unit: hour, requests_per_unit: 10 }
    - { unit: day, requests_per_unit: 500 }
- key: plan
  value: steady
  descriptors:
  - key: user
    rate_limits:
    - { unit: second, requests_per_unit: 1000 }
    - { unit: hour, requests_per_unit: 2 }
`), failOpen)
	for sent := 1; sent <= 10; sent++ {
		e.get(t, "/", "", "burst", "ann").wants(t, fmt.Sprintf("request %d of 10 an hour and 500 a day passes", sent),
			answer{status: 200, limit: "10, 10;w=3600", remaining: strconv.Itoa(10 - sent)}, hourFrom-600, hourTo)
	}
	e.get(t, "/", "", "burst", "ann").wants(t, "the eleventh of 10 an hour is refused although 490 a day are left",
		answer{status: 429, limit: "10, 10;w=3600", remaining: "0"}, hourFrom-600, hourTo)

	for _, remaining := range []string{"1", "0"} {
		e.get(t, "/", "", "steady", "ann").wants(t, "2 an hour are stricter than 1000 a second",
			answer{status: 200, limit: "2, 2;w=3600", remaining: remaining}, hourFrom-600, hourTo)
	}
	e.get(t, "/", "", "steady", "ann").wants(t, "the third of 2 an hour is refused although 998 a second are left",
		answer{status: 429, limit: "2, 2;w=3600", remaining: "0"}, hourFrom-600, hourTo)
}

func TestARefundOpensASpentLimit(t *testing.T) {
	t.Parallel()
	e := startEnvoy(t, startWeir(t, `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 3 }
`), failOpen)
	statuses := func(n int) (got []int) {
		for range n {
			got = append(got, e.get(t, "/", "", "basic", "ann").status)
		}
		return got
	}
	if got, want := fmt.Sprint(statuses(4)), "[200 200 200 429]"; got != want {
		t.Fatalf("three an hour answered %s, want %s before any refund", got, want)
	}
	e.get(t, "/refund", "", "basic", "ann").wants(t, "a route that refunds two hits is never refused",
		answer{status: 200, limit: "3, 3;w=3600", remaining: "2"}, hourFrom-600, hourTo)
	if got, want := fmt.Sprint(statuses(3)), "[200 200 429]"; got != want {
		t.Errorf("after a refund of two, requests answered %s, want %s", got, want)
	}
}
