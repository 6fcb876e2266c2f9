//go:build !linux

package process

import (
	"net"
	"syscall"
)

// hold finds a port, and cannot hold it here: only Linux lets a second socket listen on a bound one.
func hold(port int) (int, func(), error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return 0, nil, err
	}
	port = l.Addr().(*net.TCPAddr).Port
	return port, func() {}, l.Close()
}

func dieWithThread(*syscall.SysProcAttr) {}
