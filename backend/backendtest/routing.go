package backendtest

import (
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// routedKeys is how many keys RunRouting asks about in a call at most: several on each shard.
const routedKeys = 24

// RunRouting puts stores to what the way from a key to its server could break, on a topology whose arithmetic Run has
// proven elsewhere: each key has one count, calls of many keys are answered in their order, and clients share counts.
func RunRouting(t *testing.T, open func(t *testing.T) Store, o Options) {
	a := descriptors.SlidingWindow
	t.Run("EachKeyHasOneCount", func(t *testing.T) {
		Agree(t, Walks{Steps: max(o.Steps, askedOfMany), Seed: o.Seed, Keys: routedKeys, Patience: o.Patience, many: true},
			open(t).player(t))
	})
	t.Run("SameKeyTwiceIsChargedTwice", func(t *testing.T) { testSameKeyTwice(t, open(t), a) })
	t.Run("ExactlyNAmongManyClients", func(t *testing.T) { testManyClients(t, open(t), a) })
	t.Run("MisuseIsAnError", func(t *testing.T) { testMisuse(t, open(t)) })
}

// player asks a store, call by call.
func (s Store) player(t *testing.T) Player {
	return func(h History) ([]backend.Decision, error) {
		var all []backend.Decision
		for asks := range h.Calls() {
			s.SetTime(asks[0].Now)
			checks, out := make([]backend.Check, len(asks)), make([]backend.Decision, len(asks))
			for i := range asks {
				checks[i] = asks[i].Check
			}
			if err := backend.DecideAll(t.Context(), s.Counter, checks, out); err != nil {
				return all, err
			}
			all = append(all, out...)
		}
		return all, nil
	}
}
