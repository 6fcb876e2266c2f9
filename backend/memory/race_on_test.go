//go:build race

package memory

// The race detector makes a step ten times as dear; make test walks the whole way without it as well.
const (
	raceEnabled  = true
	defaultSteps = 100_000
)
