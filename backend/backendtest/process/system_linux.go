package process

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// hold binds a socket to a port of all addresses, 0 for any, and does not listen on it. Linux gives a bound port to nobody
// who asks for any, and lets another socket bind and listen as long as both allow the reuse of addresses, as every server
// does.
func hold(port int) (int, func(), error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	// A second close would end whatever has been given the number since: a listener or a pipe of another test.
	release := sync.OnceFunc(func() { _ = syscall.Close(fd) })
	// Whoever listens on the port already, or holds it, must be noticed: so reuse is allowed only after bind.
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port}); err != nil {
		release()
		return 0, nil, fmt.Errorf("holding port %d: %w", port, err)
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		release()
		return 0, nil, os.NewSyscallError("setsockopt", err)
	}
	addr, err := syscall.Getsockname(fd)
	if err != nil {
		release()
		return 0, nil, os.NewSyscallError("getsockname", err)
	}
	return addr.(*syscall.SockaddrInet4).Port, release, nil
}

// dieWithThread lets the kernel kill a process when the thread that started it ends: also when the tests panic, run out
// of time or are killed, no process stays behind.
func dieWithThread(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// LoopbackUp switches on the loopback device of a network of this process's own, which begins with that device alone,
// and off.
func LoopbackUp() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(socket)
	device := struct { // as netdevice(7) has it
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(device.name[:], "lo")
	_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&device)))
	if failed != 0 {
		return os.NewSyscallError("switching on the loopback device", failed)
	}
	return nil
}
