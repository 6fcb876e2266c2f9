package process

import "syscall"

// dieWithThread lets the kernel kill a process when the thread that started it ends: also when the tests panic, run out
// of time or are killed, no process stays behind.
func dieWithThread(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
