package faults_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
	"github.com/weirproxy/weir/descriptors"
)

// policies are what rules may say of hits that no store decides about. Plans have them in turn, so that each fault meets
// each of them. That of defaultPolicy stands in no rule: ON_BACKEND_FAILURE says it.
var policies = strings.Split(descriptors.PolicyNames, ", ")

const defaultPolicy = "deny"

// key is a descriptor that the load asks for. Its plan has a limit of its own, so that an answer which belongs to
// another caller shows.
type key struct {
	plan, user string
	policy     string // that decides where no store does
	limit      uint32
	counts     bool // every hit is counted, whatever the verdict, for a year: what the servers hold can be compared
}

// suffix is the end of its name in Redis.
func (k *key) suffix() string {
	return fmt.Sprintf("4:shop4:plan%d:%s4:user%d:%s", len(k.plan), k.plan, len(k.user), k.user)
}

const (
	coldPlans, coldUsers = 10, 100 // so many keys of each plan: 1,000
	hotPlans             = 10      // of a key each
	countUsers           = 12      // of each policy, keys that nobody reaches the limit of
	countLimit           = 100_000_000
)

func countPlan(policy string) string { return "count-" + policy }

// allKeys are cold keys, hot keys and those that count everything, in this order.
var allKeys = func() []key {
	var keys []key
	add := func(kind string, plan int, user string, limit int) {
		keys = append(keys, key{plan: fmt.Sprint(kind, plan), user: user, policy: policies[plan%len(policies)], limit: uint32(limit)})
	}
	for i := range coldPlans * coldUsers {
		add("cold", i%coldPlans, fmt.Sprint(i), 1+i%coldPlans)
	}
	for plan := range hotPlans {
		add("hot", plan, "all", 8+2*plan)
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
	text, has := "", make(map[string]bool)
	for _, k := range allKeys {
		if has[k.plan] {
			continue
		}
		has[k.plan] = true
		unit := fmt.Sprintf("unit: second, unit_multiplier: %d", int(window.Seconds()))
		if k.counts {
			unit = "unit: year, algorithm: fixed_window"
		}
		text += weirtest.Rule(k.plan, fmt.Sprintf("%s, requests_per_unit: %d", unit, k.limit))
		if k.policy != defaultPolicy {
			text += fmt.Sprintf("    on_backend_failure: %s\n", k.policy)
		}
	}
	return text
}
