package backendtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// testRetryIn: who waits for RetryIn is admitted, and who comes a microsecond earlier is not, whatever was asked before.
func testRetryIn(t *testing.T, open func(t *testing.T) Store, o Options) {
	for _, algorithms := range together {
		var names []string
		for _, a := range algorithms {
			names = append(names, a.String())
		}
		t.Run(strings.Join(names, " and "), func(t *testing.T) {
			retry(t, open(t), algorithms, o.Steps/len(promises)/len(together), o)
		})
	}
}

// retry asks a store random checks, each on two keys, until one is denied that may come again. Of these the one is asked
// too early, and so the other one is asked in time: an early check may count, and then nobody knows what the wait was.
func retry(t *testing.T, store Store, algorithms []descriptors.Algorithm, steps int, o Options) {
	r := rand.New(rand.NewPCG(o.Seed, uint64(len(algorithms))<<8+uint64(algorithms[0])))
	waits := 0
	for round := 0; steps > 0; round++ {
		m := newModel(randomRule(r, algorithms))
		early, late := fmt.Appendf(nil, "early/%v/%d", algorithms, round), fmt.Appendf(nil, "late/%v/%d", algorithms, round)
		now := start + window.Instant(r.Int64N(1e12))
		backwards, soonest := r.IntN(10), r.IntN(20)
		for step := range 40 {
			steps--
			now = max(0, now+randomMove(r, m.rule.limits, backwards))
			store.SetTime(now)
			c := backend.Check{Key: early, Limits: m.rule.limits, Charge: m.rule.charge}
			c.Op, c.Hits = randomOp(r, m.rule.limits[0].Requests)
			d := store.decide(t, c)
			c.Key = late
			if again, want := store.decide(t, c), m.decide(c.Op, c.Hits, now); again != d || d != want {
				t.Fatalf("round %d, operation %d of %d hits under %v: the store decides\n%+v and of a second key\n%+v; its model says\n%+v",
					round, c.Op, c.Hits, c.Limits, d, again, want)
			}
			if gone := m.gone(now, o.Patience); gone > 0 {
				now = max(now, gone)
			} else if !d.Allowed && step >= soonest && now.Plus(d.RetryIn) < window.MaxCount { // no wait is told beyond
				waits++
				waited(t, store, c, early, now, d)
				break
			}
		}
	}
	if waits == 0 {
		t.Errorf("no check was denied for a time: nothing is shown")
	}
}

// waited asks a check again that was denied, of the early key a microsecond before its time, and then in time.
func waited(t *testing.T, store Store, c backend.Check, early []byte, now window.Instant, d backend.Decision) {
	t.Helper()
	what := fmt.Sprintf("operation %d of %d hits under %v, charge %d, denied with %+v", c.Op, c.Hits, c.Limits, c.Charge, d)
	before := c
	before.Key = early
	store.SetTime(now.Plus(d.RetryIn) - 1)
	if got := store.decide(t, before); got.Allowed {
		t.Fatalf("%s: admitted a microsecond earlier with %+v; whoever waits has waited too long", what, got)
	}
	store.SetTime(now.Plus(d.RetryIn))
	if got := store.decide(t, c); !got.Allowed {
		t.Fatalf("%s: denied after that time with %+v; whoever waits has waited in vain", what, got)
	}
}
