//go:build race

package child

// RaceDetector reports whether these tests run with the race detector; then weir is built with it, too.
const RaceDetector = true
