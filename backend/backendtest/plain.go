package backendtest

import (
	"math/rand/v2"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// RunPlain puts stores to that part of the test which holds for keys of envoyproxy/ratelimit: they count under one
// limit, a fixed window of one unit that charges always. A clock that steps back finds the count of an earlier window
// there, so it does not.
func RunPlain(t *testing.T, open func(t *testing.T) Store, o Options) {
	o.plain = true
	t.Run("EachStepIsTheModels", func(t *testing.T) {
		walk(t, open(t), promise{name: "plain", kept: oneClock}, o.Steps, o)
	})
	t.Run("Rulings", func(t *testing.T) { testPlainRulings(t, open) })
	t.Run("SameKeyTwiceIsChargedTwice", func(t *testing.T) { testSameKeyTwice(t, open(t), descriptors.FixedWindow) })
}

// plainRule draws one limit of few requests.
func plainRule(t *testing.T, r *rand.Rand) rule {
	t.Helper()
	charges := []descriptors.Charge{descriptors.ChargeByAlgorithm, descriptors.ChargeAlways}
	l := NewLimit(t, r.Uint64N(12), descriptors.Unit(1+r.IntN(7)), 1, descriptors.FixedWindow, 0)
	return rule{limits: []descriptors.Limit{l}, charge: charges[r.IntN(len(charges))]}
}
