package faults_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// policies are what rules may say of hits that no store decides about. Plans have them in turn, so that each fault meets
// each of them. That of defaultPolicy stands in no rule: ON_BACKEND_FAILURE says it.
var policies = []string{"allow", "deny", "local", "error"}

const defaultPolicy = "deny"

// key is a descriptor that the load asks for. Its plan has a limit of its own, so that an answer which belongs to
// another caller shows.
type key struct {
	plan, user string
	policy     string // that decides where no store does
	limit      uint32
	counts     bool // every hit is counted, whatever the verdict, for a year: what the servers hold can be compared
}

const (
	coldPlans, coldUsers = 10, 100 // so many keys of each plan: 1,000
	hotPlans             = 10      // of a key each
	countUsers           = 12      // of each policy, keys that nobody reaches the limit of
	countLimit           = 100_000_000
)

func coldLimit(plan int) uint32      { return uint32(1 + plan) }
func hotLimit(plan int) uint32       { return uint32(8 + 2*plan) }
func policyOf(plan int) string       { return policies[plan%len(policies)] }
func countPlan(policy string) string { return "count-" + policy }

// allKeys are cold keys, hot keys and those that count everything, in this order.
var allKeys = func() []key {
	var keys []key
	for i := range coldPlans * coldUsers {
		plan := i % coldPlans
		keys = append(keys, key{plan: fmt.Sprint("cold", plan), user: fmt.Sprint(i), policy: policyOf(plan), limit: coldLimit(plan)})
	}
	for plan := range hotPlans {
		keys = append(keys, key{plan: fmt.Sprint("hot", plan), user: "all", policy: policyOf(plan), limit: hotLimit(plan)})
	}
	for _, policy := range policies {
		for user := range countUsers {
			keys = append(keys, key{plan: countPlan(policy), user: fmt.Sprint(user), policy: policy, limit: countLimit, counts: true})
		}
	}
	return keys
}()

// anyKey draws a key: two fifths are cold, two fifths hot, a fifth counts everything.
func anyKey(draw *rand.Rand) int {
	const cold, hot = coldPlans * coldUsers, hotPlans
	switch draw.IntN(5) {
	case 0, 1:
		return draw.IntN(cold)
	case 2, 3:
		return cold + draw.IntN(hot)
	default:
		return draw.IntN(len(allKeys)-cold-hot) + cold + hot
	}
}

// rules are those of domain shop, with a limit for each plan, within a window of whole seconds.
func rules(window time.Duration) string {
	text := ""
	add := func(plan, policy, limit string) {
		text += weirtest.Rule(plan, limit)
		if policy != defaultPolicy {
			text += fmt.Sprintf("    on_backend_failure: %s\n", policy)
		}
	}
	within := func(limit uint32) string {
		return fmt.Sprintf("unit: second, unit_multiplier: %d, requests_per_unit: %d", int(window.Seconds()), limit)
	}
	for plan := range coldPlans {
		add(fmt.Sprint("cold", plan), policyOf(plan), within(coldLimit(plan)))
	}
	for plan := range hotPlans {
		add(fmt.Sprint("hot", plan), policyOf(plan), within(hotLimit(plan)))
	}
	for _, policy := range policies {
		add(countPlan(policy), policy, fmt.Sprintf("unit: year, requests_per_unit: %d, algorithm: fixed_window", countLimit))
	}
	return text
}
