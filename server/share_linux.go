package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharePort lets other processes of the same user listen on the port: the system spreads connections over them.
func sharePort(_, _ string, c syscall.RawConn) error {
	var setError error
	err := c.Control(func(fd uintptr) {
		setError = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, setError)
}
