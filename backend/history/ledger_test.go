package history_test

import (
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

// A store that is nothing but ledgers: the arithmetic alone is right.
func TestLedgersPassTheSuite(t *testing.T) {
	d := historytest.Depth{Steps: 20_000, Seed: 1}
	if testing.Short() {
		d.Steps /= 4
	}
	historytest.Run(t, func(_ *testing.T, o historytest.Options) history.Store { return historytest.NewLedgers(o) }, d)
}
