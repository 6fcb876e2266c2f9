//go:build !linux

package server

import "syscall"

// sharePort does nothing: SO_REUSEPORT of other systems does not spread connections as Linux does.
func sharePort(_, _ string, _ syscall.RawConn) error { return nil }
