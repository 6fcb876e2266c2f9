//go:build !race

package memory

const (
	raceEnabled  = false
	defaultSteps = 1_000_000
)
