package process

import (
	"os"
	"syscall"
	"unsafe"
)

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
