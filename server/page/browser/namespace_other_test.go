//go:build !linux

package browser

// inOwnNetwork does nothing: only Linux has networks of a process's own.
func inOwnNetwork() (code int, ran bool) { return 0, false }
