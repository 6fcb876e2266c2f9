package rls

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/server/limit"
)

// retryRules has rules of every algorithm and charge, but no quotas, because one quota with room lets a request pass.
const retryRules = `
domain: shop
descriptors:
  - {key: window, rate_limit: {requests_per_unit: 4, unit: minute}}
  - {key: brief, rate_limit: {requests_per_unit: 2, unit: second}}
  - {key: fixed, rate_limit: {requests_per_unit: 3, unit: minute, algorithm: fixed_window}}
  - {key: shadow, shadow_mode: true, rate_limit: {requests_per_unit: 3, unit: hour}}
  - {key: log, rate_limit: {requests_per_unit: 5, unit: minute, algorithm: sliding_log}}
  - key: several
    charge: always
    rate_limits: [{requests_per_unit: 2, unit: second}, {requests_per_unit: 5, unit: minute}, {requests_per_unit: 9, unit: hour}]
  - key: mixed
    rate_limits: [{requests_per_unit: 3, unit: minute}, {requests_per_unit: 6, unit: hour, algorithm: fixed_window}]
`

// of returns descriptors with these keys and a user.
func of(user string, keys []string) (texts []string) {
	for _, key := range keys {
		texts = append(texts, key+"="+user)
	}
	return texts
}

// over returns the keys whose descriptors an answer refuses, and the longest wait of these, in seconds.
func over(answer *ratelimit.RateLimitResponse, keys []string) (refused []string, longest int64) {
	for i, s := range answer.Statuses {
		if s.Code == ratelimit.RateLimitResponse_OVER_LIMIT {
			refused = append(refused, keys[i])
			longest = max(longest, s.DurationUntilReset.Seconds)
		}
	}
	return refused, longest
}

// A caller who waits for retry-after seconds is admitted by every descriptor, even by one that the refused request has
// filled; a second earlier, some descriptor refuses him. The test uses two users with the same requests, one for each
// retry, because the early retry may count.
func TestRetryAfterAdmitsEveryDescriptor(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	all := []string{"window", "brief", "fixed", "log", "several", "mixed", "shadow"}
	w := newWorld(t, fixture.Config(t, retryRules), limit.Options{}, Options{Headers: Headers{RetryAfter: true}})
	waits, filled := 0, 0
	rounds := 3000
	if testing.Short() {
		rounds = 600
	}
	for round := range rounds {
		early, late := fmt.Sprintf("early%d", round), fmt.Sprintf("late%d", round)
		for range 60 {
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			keys, hits := all[:1+r.IntN(len(all))], 1+r.Uint32N(2)
			w.ask(t, hits, of(early, keys)...)
			answer := w.ask(t, hits, of(late, keys)...)
			if answer.OverallCode == ratelimit.RateLimitResponse_OVER_LIMIT && r.IntN(3) == 0 {
				waits++
				if w.retryRequest(t, answer, early, late, hits, keys) {
					filled++
				}
				break
			}
			w.micros.Add(r.Int64N(4e6))
		}
	}
	if waits < rounds/3 || filled < rounds/60 {
		t.Errorf("only %d requests of %d rounds were refused, and %d had to wait for what they filled: too few to show anything",
			waits, rounds, filled)
	}
}

// retryRequest repeats a refused request: as the user early a second too early, as the user late in time. It reports
// whether retry-after is longer than the waits of the descriptors that refused the request.
func (w *world) retryRequest(t *testing.T, answer *ratelimit.RateLimitResponse, early, late string, hits uint32,
	keys []string) bool {
	t.Helper()
	_, longest := over(answer, keys)
	after, err := strconv.ParseInt(answer.ResponseHeadersToAdd[0].Value, 10, 64)
	if err != nil || after < longest || after < 1 {
		t.Fatalf("retry-after is %v; want at least %d s, the longest wait of those that refused in %v", answer.ResponseHeadersToAdd, longest, answer)
	}
	w.micros.Add((after - 1) * 1e6)
	if after > 1 {
		if still, _ := over(w.ask(t, hits, of(early, keys)...), keys); len(still) == 0 {
			t.Fatalf("told to wait %d s, all of %v admitted a second earlier: the caller has waited too long", after, keys)
		}
	}
	w.micros.Add(1e6)
	if still, _ := over(w.ask(t, hits, of(late, keys)...), keys); len(still) > 0 {
		t.Fatalf("%v refused again after the %d s that the caller was told for %v: it has waited in vain", still, after, keys)
	}
	return after > longest
}
