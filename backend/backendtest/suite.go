// Package backendtest is the conformance suite that every store passes: five promises as random walks against an exact
// log and against a model of each algorithm, the rulings as a table, and many clients at once.
package backendtest

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// Store is an empty store under test.
type Store struct {
	Counter backend.Counter
	// SetTime sets the store's clock, which stands still in between.
	SetTime func(window.Instant)
	// Buckets is how many buckets the store holds for a key that is asked under limits, of each on its finest level, or
	// instants of a log, or 1 of a token bucket in which anything counts; 0 for a key that it does not know.
	Buckets func(key []byte, limits []descriptors.Limit) int
}

// Options say how long to test.
type Options struct {
	Steps int    // random steps of all walks together
	Seed  uint64 // the same seed gives the same walks
	// Patience is how long a store may take until it is asked again, if it drops keys by a clock of its own, which goes
	// on: a key that is about to go is not asked before it is gone. 0: it has no such clock.
	Patience time.Duration
}

// start is where the clocks of the suite begin: not the start of any bucket.
var start = window.At(time.Date(2026, 11, 21, 11, 59, 48, 700_000_000, time.UTC))

// algorithms are all of them.
var algorithms = descriptors.Algorithms()

// Run puts stores to the test. open gives an empty store that lasts until its t ends.
func Run(t *testing.T, open func(t *testing.T) Store, o Options) {
	for _, promise := range promises {
		t.Run(promise.name, func(t *testing.T) {
			walk(t, open(t), promise, o.Steps/len(promises), o)
		})
	}
	t.Run("Rulings", func(t *testing.T) { testRulings(t, open) })
	t.Run("ClassicExample", func(t *testing.T) { testClassicExample(t, open(t)) })
	t.Run("StateFollowsTheLimit", func(t *testing.T) { testStateFollowsTheLimit(t, open(t)) })
	for _, a := range algorithms {
		t.Run("TwoNumbersInTurnsBothHold/"+a.String(), func(t *testing.T) { testTurns(t, open(t), a) })
		if a != descriptors.TokenBucket { // whose hits do not count for a window
			t.Run("AChangedWindowBeginsAnew/"+a.String(), func(t *testing.T) { testChangedWindow(t, open(t), a) })
		}
	}
	for _, a := range []descriptors.Algorithm{descriptors.SlidingWindow, descriptors.SlidingLog, descriptors.TokenBucket} {
		t.Run(a.String(), func(t *testing.T) {
			t.Run("SameKeyTwiceIsChargedTwice", func(t *testing.T) { testSameKeyTwice(t, open(t), a) })
			t.Run("LookAndRefundLeaveNoKey", func(t *testing.T) { testNoKey(t, open(t), a) })
			t.Run("ExactlyNAmongManyClients", func(t *testing.T) { testManyClients(t, open(t), a) })
		})
	}
	t.Run("LogsAreExactWhateverTheirLength", func(t *testing.T) { testLongLog(t, open(t)) })
	t.Run("MisuseIsAnError", func(t *testing.T) { testMisuse(t, open(t)) })
}

// NewLimit is descriptors.NewLimit for limits that are known to be right.
func NewLimit(t testing.TB, n uint64, u descriptors.Unit, times uint32, a descriptors.Algorithm, precision time.Duration) descriptors.Limit {
	t.Helper()
	l, err := descriptors.NewLimit(n, u, times, a, precision)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
