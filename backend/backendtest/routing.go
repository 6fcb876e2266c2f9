package backendtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

const (
	routedStores = 4   // that ask the same servers at the same time
	routedKeys   = 24  // of a round: several on each shard
	routedChecks = 800 // of a round, at least
	routedCall   = 64  // checks of a call, at most
)

// RunRouting puts stores to what the way from a key to its server could break, on a topology whose arithmetic Run has
// proven elsewhere: each key has one count, calls of many keys are answered in their order, and clients share counts.
// The stores may share servers, if open gives each keys of its own.
func RunRouting(t *testing.T, open func(t *testing.T) Store, o Options) {
	t.Run("EachKeyHasOneCount", func(t *testing.T) {
		var rounds, steps atomic.Int64
		var walking sync.WaitGroup
		for range routedStores {
			store := open(t)
			walking.Go(func() {
				for steps.Load() < int64(o.Steps) && !t.Failed() {
					steps.Add(store.route(t, o, int(rounds.Add(1))))
				}
			})
		}
		walking.Wait()
	})
	t.Run("ExactlyNAmongManyClients", func(t *testing.T) { testManyClients(t, open(t), descriptors.SlidingWindow) })
	t.Run("MisuseIsAnError", func(t *testing.T) { testMisuse(t, open(t)) })
}

// route asks a store about many keys, of a few rules, in calls of many checks, and returns how many checks it made.
// Each decision must be the model's.
//
// While it asks, the clocks of servers go on, and these drop keys by them: no key is asked again that would have less
// than Options.Patience to live, until it is gone by the clock of the test. Windows are so long that few keys come to
// that.
func (s Store) route(t *testing.T, o Options, round int) (steps int64) {
	r := rand.New(rand.NewPCG(o.Seed, uint64(round)))
	models := []*model{newModel(slowRule(r, 6*o.Patience))}
	for len(models) < routedKeys {
		if r.IntN(8) == 0 {
			models = append(models, newModel(slowRule(r, 6*o.Patience)))
		} else {
			models = append(models, newModel(models[r.IntN(len(models))].rule))
		}
	}
	backwards := []int{0, 2, 20}[r.IntN(3)]
	for now := start + window.Instant(r.Int64N(1e12)); steps < routedChecks; {
		next := models[r.IntN(len(models))]
		now = max(0, now+RandomMove(r, next.rule.limits, backwards)) // no clock shows a time before 1970
		s.SetTime(now)
		checks := make([]backend.Check, 1+r.IntN(routedCall))
		want, got := make([]backend.Decision, len(checks)), make([]backend.Decision, len(checks))
		gone := now
		for i := range checks {
			key := r.IntN(len(models))
			m := models[key]
			c := m.draw(r, fmt.Appendf(nil, "%d/%d", round, key))
			checks[i], want[i] = c, m.decide(c.Op, c.Hits, now)
			gone = max(gone, m.gone(now, o.Patience))
		}
		if err := backend.DecideAll(t.Context(), s.Counter, checks, got); err != nil {
			t.Errorf("round %d: %v", round, err)
			return steps
		}
		for i, c := range checks {
			if got[i] != want[i] {
				t.Errorf("round %d, check %d of a call of %d, operation %d of %d hits of key %s under %v, charge %d: "+
					"the store decides\n%+v; its model says\n%+v",
					round, i, len(checks), c.Op, c.Hits, c.Key, c.Limits, c.Charge, got[i], want[i])
				return steps
			}
		}
		steps, now = steps+int64(len(checks)), gone
	}
	return steps
}

// slowRule draws a rule until all its windows are long enough.
func slowRule(r *rand.Rand, shortest time.Duration) rule {
	for {
		drawn := anyRule(r)
		if !slices.ContainsFunc(drawn.limits, func(l descriptors.Limit) bool { return l.Window < shortest }) {
			return drawn
		}
	}
}
