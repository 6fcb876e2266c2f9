package child

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// Hang is how long anything may take before a test calls it hung. Nothing on a busy machine takes a part of it, so no
// test fails because it was slow.
const Hang = time.Minute

// Process is a child that ends with its test at the latest. What it printed is shown if the test fails. Its methods may
// be called from many goroutines at once.
type Process struct {
	Log redistest.Output // what it has printed, on both outputs

	name string
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
}

// Start runs a binary in a folder of its own, in an environment that holds env and little else.
func Start(t testing.TB, name string, env []string, binary string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, env...)
	return Run(t, name, cmd)
}

// Run runs a command that was not started yet. Its output is the Process's.
func Run(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{name: name, cmd: cmd, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.Log, &p.Log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended stands in ProcessState
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if log := p.Log.String(); strings.Contains(log, "DATA RACE") {
			t.Errorf("the race detector found a data race in %s", name)
		}
		if t.Failed() {
			t.Logf("%s (%v) printed:\n%s", name, p.cmd.ProcessState, p.Log.String())
		}
	})
	return p
}

// Dir returns the folder that the process works in.
func (p *Process) Dir() string { return p.cmd.Dir }

// Pid returns the process's number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process as kill -9 does, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.done
}

// Terminate sends SIGTERM.
func (p *Process) Terminate(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
}

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("sending %v to %s: %v", s, p.name, err)
	}
}

// Ended returns an error that says how the process has ended, nil if it has not.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended (%v)", p.name, p.cmd.ProcessState)
	default:
		return nil
	}
}

// ExitCode waits until the process has ended, and returns its exit code.
func (p *Process) ExitCode(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(Hang):
		t.Fatalf("%s has not ended within %v", p.name, Hang)
	}
	return p.cmd.ProcessState.ExitCode()
}

// AwaitReady polls until check is content with a process that was just started.
func (p *Process) AwaitReady(t testing.TB, check func() error) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if ended := p.Ended(); ended != nil {
			t.Fatalf("%s before it was ready", ended)
		}
		err := check()
		if err == nil && p.Ended() == nil { // else it was somebody else who answered
			return
		}
		if time.Since(began) > Hang {
			t.Fatalf("%s is not ready within %v: %v", p.name, Hang, err)
		}
	}
}

// ports remembers what FreePort gave away, so that two tests never get the same port.
var ports sync.Map

// FreePort returns a port that nobody listens on. It lies below those that the kernel gives to whoever connects or
// listens without naming one, so that it is free still when it is used, and when a process starts again, and apart from
// those of redistest.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 16_000 + rand.IntN(4_000)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		l.Close()
		if _, taken := ports.LoadOrStore(port, true); !taken {
			return port
		}
	}
	t.Fatal("of 1,000 ports none is free")
	return 0
}
