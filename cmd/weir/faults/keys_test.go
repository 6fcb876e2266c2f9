package faults_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// key is a descriptor that the load asks for. Its plan has a limit of its own, so that an answer which belongs to
// another caller shows.
type key struct {
	plan, user string
	limit      uint32
	counts     bool // every hit is counted, whatever the verdict, for a year: what the servers hold can be compared
}

const (
	coldPlans, coldUsers = 10, 100 // so many keys of each plan: 1,000
	hotPlans             = 10      // of a key each
	countPlan            = "count" // of keys that nobody reaches the limit of
	countUsers           = 50
	countLimit           = 100_000_000
)

func coldLimit(plan int) uint32 { return uint32(1 + plan) }
func hotLimit(plan int) uint32  { return uint32(8 + 2*plan) }

// allKeys are cold keys, hot keys and those that count everything, in this order.
var allKeys = func() []key {
	var keys []key
	for i := range coldPlans * coldUsers {
		plan := i % coldPlans
		keys = append(keys, key{plan: fmt.Sprint("cold", plan), user: fmt.Sprint(i), limit: coldLimit(plan)})
	}
	for plan := range hotPlans {
		keys = append(keys, key{plan: fmt.Sprint("hot", plan), user: "all", limit: hotLimit(plan)})
	}
	for user := range countUsers {
		keys = append(keys, key{plan: countPlan, user: fmt.Sprint(user), limit: countLimit, counts: true})
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
		return cold + hot + draw.IntN(countUsers)
	}
}

// rules is a file of domain shop with a limit for each plan, within a window of whole seconds.
func rules(window time.Duration, algorithm string) string {
	text := "domain: shop\ndescriptors:\n"
	add := func(plan, limit string) { text += rule(plan, limit) }
	short := func(plan string, limit uint32) {
		add(plan, fmt.Sprintf("unit: second, unit_multiplier: %d, requests_per_unit: %d, algorithm: %s",
			int(window.Seconds()), limit, algorithm))
	}
	for plan := range coldPlans {
		short(fmt.Sprint("cold", plan), coldLimit(plan))
	}
	for plan := range hotPlans {
		short(fmt.Sprint("hot", plan), hotLimit(plan))
	}
	add(countPlan, fmt.Sprintf("unit: year, requests_per_unit: %d, algorithm: fixed_window", countLimit))
	add(envoyPlan, fmt.Sprintf("unit: year, requests_per_unit: %d, algorithm: fixed_window", countLimit))
	return text
}

// rule is the limit of a plan's users.
func rule(plan, limit string) string {
	return fmt.Sprintf("- key: plan\n  value: %s\n  descriptors:\n  - key: user\n    rate_limit: { %s }\n", plan, limit)
}

// onePlan is a file of domain shop with one rule.
func onePlan(plan, limit string) string { return "domain: shop\ndescriptors:\n" + rule(plan, limit) }

// describe returns the descriptor (plan=...)(user=...).
func describe(plan, user string) *descriptorpb.RateLimitDescriptor {
	return &descriptorpb.RateLimitDescriptor{Entries: []*descriptorpb.RateLimitDescriptor_Entry{
		{Key: "plan", Value: plan}, {Key: "user", Value: user},
	}}
}
