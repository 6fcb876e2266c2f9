package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// socketMode lets all users connect, as with a TCP port: Envoy usually runs as another user.
const socketMode = 0o666

// listen opens host:port, which other processes may open too if shared, or unix:/path, a socket that Close removes.
func listen(address string, shared bool) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		var c net.ListenConfig
		if shared {
			c.Control = sharePort
		}
		return c.Listen(context.Background(), "tcp", address)
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	lis, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	return lis, nil
}

// removeStaleSocket removes the socket of a killed process. Any other file is left alone, and is an error.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there already, and is no socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("another process listens on %s", path), conn.Close())
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("checking whether a process listens on %s: %w", path, err)
	}
	return os.Remove(path)
}
