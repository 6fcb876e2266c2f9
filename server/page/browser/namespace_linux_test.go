package browser

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// ownNetwork is set in the process that has a network of its own.
const ownNetwork = "WEIR_BROWSER_OWN_NETWORK"

// inOwnNetwork runs this process once more, with the same arguments, in a network that has only a loopback device:
// Chromium drops its requests when a device comes or goes, as tests of other packages make them do. It returns the exit
// code of that process, and whether there was one: else the caller runs the tests.
func inOwnNetwork() (code int, ran bool) {
	if os.Getenv(ownNetwork) != "" {
		if err := process.LoopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1, true
		}
		return 0, false
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Args[0] = os.Args[0]
	again.Env = append(os.Environ(), ownNetwork+"=1")
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 { // it is root there, and nothing more here
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	runtime.LockOSThread() // the thread that it dies with must live as long as it
	err := again.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		fmt.Println("no network of its own here, so a device that comes or goes may fail these tests:", err)
		return 0, false
	}
	return again.ProcessState.ExitCode(), true
}
