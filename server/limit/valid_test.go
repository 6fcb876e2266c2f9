package limit_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// validated is a store that wants each call of Decide to be right, and now and then gives no answer.
type validated struct {
	*memory.Store
	t     *testing.T
	r     *rand.Rand
	calls int
	seen  map[string]bool // what the checks had
}

func (v *validated) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := backendtest.Validate(checks, out); err != nil {
		v.t.Fatalf("a store is asked what it cannot answer: %v", err)
	}
	v.calls++
	for i := range checks {
		c := &checks[i]
		v.seen[fmt.Sprint("op ", c.Op)], v.seen[fmt.Sprint("charge ", c.Charge)] = true, true
		v.seen[fmt.Sprint("limits ", min(2, len(c.Limits)))], v.seen[fmt.Sprint("algorithm ", c.Limits[0].Algorithm)] = true, true
	}
	if v.r.IntN(20) == 0 {
		for i := range checks {
			out[i] = backend.Decision{Err: &backend.UnavailableError{Reason: backend.Down, Err: context.DeadlineExceeded}}
		}
		return nil
	}
	return v.Store.Decide(ctx, checks, out)
}

// drawRules draws a file of rules of every kind that a file may have.
func drawRules(r *rand.Rand) string {
	algorithms := [][]string{{"sliding_window", "fixed_window", "token_bucket"}, {"sliding_log"}, {"fixed_window"}, {"token_bucket"}}
	text := "domain: shop\nrefund_on_deny: " + fmt.Sprint(r.IntN(2) == 0) + "\ndescriptors:\n"
	for i := range 6 {
		text += fmt.Sprintf("  - key: k%d\n", i)
		if r.IntN(6) == 0 {
			text += fmt.Sprintf("    rate_limit: {unlimited: true, replaces: [{name: n%d}]}\n", r.IntN(3))
			continue
		}
		by, limits := algorithms[r.IntN(len(algorithms))], []string{}
		for j := range 1 + r.IntN(3) {
			limits = append(limits, fmt.Sprintf("{requests_per_unit: %d, unit: %s, unit_multiplier: %d, name: n%d, algorithm: %s}",
				r.IntN(20), []string{"second", "minute", "hour", "day"}[r.IntN(4)], j+1, j, by[r.IntN(len(by))]))
		}
		text += "    rate_limits: [" + strings.Join(limits, ", ") + "]\n"
		for _, line := range []string{"shadow_mode: true", "quota_mode: true", "charge: admitted", fmt.Sprintf("replaces: [{name: n%d}]", r.IntN(3)),
			"on_backend_failure: " + []string{"allow", "deny", "local", "error"}[r.IntN(4)], "detailed_metric: true"} {
			if r.IntN(4) == 0 && (line != "charge: admitted" || by[0] != "sliding_log") {
				text += "    " + line + "\n"
			}
		}
	}
	return text
}

// drawRequest draws a request as it may come, sensible or not.
func drawRequest(r *rand.Rand) limit.Request {
	numbers := []uint64{0, 0, 1, 1, 2, 7, math.MaxUint32, math.MaxUint64}
	request := limit.Request{Domain: []string{"shop", "shop", "shop", "elsewhere"}[r.IntN(4)], Hits: uint32(numbers[r.IntN(len(numbers))]),
		At: time.Unix(1_700_000_000+r.Int64N(100), 0)}
	n := 1 + r.IntN(4)
	if r.IntN(30) == 0 {
		n = limit.MaxDescriptors + r.IntN(2)
	}
	for range n {
		d := one(fmt.Sprint("k", r.IntN(7)), []string{"", "x", "y", strings.Repeat("z", 2000)}[r.IntN(4)])
		switch r.IntN(40) {
		case 0:
			d.Entries = nil
		case 1:
			d.Entries[0].Key = ""
		}
		d.HasHits, d.Hits, d.Refund = r.IntN(3) == 0, numbers[r.IntN(len(numbers))], r.IntN(8) == 0
		d.HasOverride, d.Override = r.IntN(5) == 0, limit.Override{Requests: uint32(numbers[r.IntN(len(numbers))]), Unit: descriptors.Unit(r.IntN(9)),
			Multiplier: uint32(numbers[r.IntN(len(numbers))]), HasMultiplier: r.IntN(2) == 0}
		request.Descriptors = append(request.Descriptors, d)
	}
	return request
}

// Stores do not look at what they are asked: a limit that is none would end the process.
func TestStoresAreAskedOnlyValidChecks(t *testing.T) {
	store := &validated{t: t, r: rand.New(rand.NewPCG(1, 42)), seen: make(map[string]bool)}
	r := store.r
	for range 40 {
		store.Store = fixture.Memory(t, nil)
		var counter backend.Counter = store
		if r.IntN(2) == 0 {
			counter = guard.New(store, guard.Config{Now: time.Now, Leases: r.IntN(2) == 0, Local: fixture.Memory(t, nil), FixedWindowBytes: r.Int64N(2)})
		}
		algorithms := descriptors.Algorithms()
		l := limit.New(counter, limit.Options{Algorithm: algorithms[r.IntN(len(algorithms))], Shadow: r.IntN(5) == 0, Quota: r.IntN(5) == 0,
			RefundOthers: r.IntN(3) == 0, CanLease: true, Leases: r.IntN(2) == 0}, hits.New(0))
		l.Apply(fixture.Config(t, drawRules(r)))
		for range 60 {
			_ = l.Decide(t.Context(), &limit.Call{Request: drawRequest(r)}) // some have no answer
		}
	}
	for _, what := range []string{"op 0", "op 1", "op 2", "charge 0", "charge 1", "charge 2", "limits 1", "limits 2",
		"algorithm sliding_window", "algorithm fixed_window", "algorithm sliding_log", "algorithm token_bucket"} {
		if !store.seen[what] {
			t.Errorf("in %d calls no check had %s, so nothing is said of it", store.calls, what)
		}
	}
}
