//go:build race

package e2e_test

// raceDetector reports whether these tests run with the race detector; then weir is built with it, too.
const raceDetector = true
