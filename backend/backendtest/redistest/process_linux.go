package redistest

import "syscall"

// diesWithItsThread lets the kernel kill a process when the thread that started it ends: also when the tests panic, run
// out of time or are killed, no server stays behind.
func diesWithItsThread() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
