package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// hang is how long anything may take before these tests call it hung. Nothing on a busy machine takes a part of it, so
// no test fails because it was slow.
const hang = time.Minute

// process is a child that ends with its test at the latest. What it printed is shown if the test fails.
type process struct {
	name string
	cmd  *exec.Cmd
	log  redistest.Output
	done chan struct{} // closed once it has ended
}

// start runs a binary in a folder of its own, in an environment that holds env and little else.
func start(t *testing.T, name string, env []string, binary string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.cmd.Dir}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended stands in ProcessState
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if log := p.log.String(); strings.Contains(log, "DATA RACE") {
			t.Errorf("the race detector found a data race in %s", name)
		}
		if t.Failed() {
			t.Logf("%s (%v) printed:\n%s", name, p.cmd.ProcessState, p.log.String())
		}
	})
	return p
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.done
}

// running reports how the process has ended, nil if it has not.
func (p *process) running() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended (%v)", p.name, p.cmd.ProcessState)
	default:
		return nil
	}
}

// exitCode waits until the process has ended, and returns its exit code.
func (p *process) exitCode(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(hang):
		t.Fatalf("%s has not ended within %v", p.name, hang)
	}
	return p.cmd.ProcessState.ExitCode()
}

// awaitStart polls until check is content with a process that was just started.
func (p *process) awaitStart(t *testing.T, check func() error) {
	t.Helper()
	eventually(t, p.name+" is ready", func() error {
		if ended := p.running(); ended != nil {
			t.Fatalf("%s before it was ready", ended)
		}
		return check()
	})
}

// eventually polls until check is content, and returns how long that took.
func eventually(t *testing.T, promise string, check func() error) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		asked := time.Now()
		err := check()
		if err == nil {
			return time.Since(began)
		}
		if asked.Sub(began) > hang {
			t.Fatalf("not within %v: %s: %v", hang, promise, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// patient gives up before the tests' own time is over, so that a process which hangs is named.
var patient = &http.Client{Timeout: hang}

// wantStatus asks a URL and complains unless the answer has that status.
func wantStatus(url string, status int) error {
	answer, err := patient.Get(url)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != status {
		return fmt.Errorf("%s answers %d, want %d", url, answer.StatusCode, status)
	}
	return nil
}

// ports remembers what freePort gave away, so that two tests never get the same port.
var ports sync.Map

// freePort returns a port that nobody listens on. The kernel chooses it.
func freePort(t *testing.T) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("asking the kernel for a free port: %v", err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if _, taken := ports.LoadOrStore(port, true); !taken {
			return port
		}
	}
}
