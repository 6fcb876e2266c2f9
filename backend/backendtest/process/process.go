// Package process starts the programs that tests ask from outside: weir, Redis, Envoy, Prometheus, Chromium. Each has
// ports that nobody else is given, ends with its test or with the process of the tests, and shows what it printed when
// its test fails. It is the only place in the tests that starts one.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Hang is how long anything may take before a test calls it hung: the one safety net of all tests. A busy machine, or
// one that stands still for seconds, takes no part of it, so no test fails because it was slow.
const Hang = 2 * time.Minute

// Process is one run of a program. Its methods may be called from many goroutines at once.
type Process struct {
	Log *Output // what it has printed, on both outputs

	name string
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended

	stopped atomic.Bool // it was told to end
}

// Start runs a program in a folder of its own, in an environment that holds env and little else. It ends with the test
// at the latest; what it printed is shown if the test fails.
func Start(t testing.TB, name string, env []string, binary string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, env...)
	return Run(t, name, cmd)
}

// Run is Start for a command that has its folder and environment.
func Run(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p, err := Launch(name, cmd, new(Output), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if strings.Contains(p.Log.String(), "DATA RACE") {
			t.Errorf("the race detector found a data race in %s", name)
		}
		if t.Failed() {
			t.Logf("%s (%v) printed:\n%s", name, p.cmd.ProcessState, p.Log)
		}
	})
	return p
}

// Launch is Run for what outlives a test: the caller kills the process. It waits until the process has printed ready, an
// empty ready for nothing, and is an error if it ends before that.
func Launch(name string, cmd *exec.Cmd, log *Output, ready string) (*Process, error) {
	p := &Process{Log: log, name: name, cmd: cmd, done: make(chan struct{})}
	printed := log.await(ready)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.WaitDelay = time.Second // a child that saves may hold the pipe for a while
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	dieWithThread(p.cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread that it dies with must live as long as it
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait() // how it ended stands in ProcessState
		if !p.stopped.Load() {
			_, _ = fmt.Fprintf(log, "(%s was not told to end, and has: %v)\n", name, p.cmd.ProcessState)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	select {
	case <-printed:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("%s has ended (%v) before it was ready:\n%s", name, p.cmd.ProcessState, log)
	case <-time.After(Hang):
		p.Kill()
		return nil, fmt.Errorf("%s has not printed %q within %v:\n%s", name, ready, Hang, log)
	}
}

// Dir returns the folder that the process works in.
func (p *Process) Dir() string { return p.cmd.Dir }

// Pid returns the process's number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process as kill -9 does, and waits until it is gone.
func (p *Process) Kill() {
	p.Send(syscall.SIGKILL)
	<-p.done
}

// Terminate sends SIGTERM.
func (p *Process) Terminate(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
}

// Signal sends a signal to a process that has not ended.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.Send(s); err != nil {
		t.Fatal(err)
	}
}

// Send is Signal without a test. Its error means that the process has ended.
func (p *Process) Send(s syscall.Signal) error {
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		p.stopped.Store(true)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %v to %s: %w", s, p.name, err)
	}
	return nil
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

// Drain ends the process as Kubernetes does, and wants it to end well.
func (p *Process) Drain(t testing.TB) {
	t.Helper()
	p.Terminate(t)
	if code := p.ExitCode(t); code != 0 {
		t.Errorf("after SIGTERM %s ended with exit code %d, want 0", p.name, code)
	}
}

// AwaitReady polls until check is content with a process that was just started.
func (p *Process) AwaitReady(t testing.TB, check func() error) {
	t.Helper()
	if err := p.Await(check); err != nil {
		t.Fatal(err)
	}
}

// Await is AwaitReady without a test.
func (p *Process) Await(check func() error) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if ended := p.Ended(); ended != nil {
			return fmt.Errorf("%w before it was ready:\n%s", ended, p.Log)
		}
		err := check()
		if err == nil {
			return nil
		}
		if time.Since(began) > Hang {
			return fmt.Errorf("%s is not ready within %v: %w\n%s", p.name, Hang, err, p.Log)
		}
	}
}

// PeakMemory returns the most bytes that the process ever held. It is known on Linux only.
func (p *Process) PeakMemory(t testing.TB) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	var kilobytes int
	if _, scanned := fmt.Sscan(string(after), &kilobytes); err != nil || scanned != nil {
		t.Fatalf("the memory of %s: %v, %v", p.name, err, scanned)
	}
	return kilobytes << 10
}

// Eventually waits until check returns nil, and returns how long that took. After Hang it fails the test, with the
// promise and check's last error.
func Eventually(t testing.TB, promise string, check func() error) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		err := check()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > Hang {
			t.Fatalf("not within %v: %s: %v", Hang, promise, err)
		}
	}
}

// Output keeps what a process printed, or a logger wrote: the first 256 KiB, and how much more there was. It may be
// written to and read at the same time.
type Output struct {
	mu      sync.Mutex
	kept    bytes.Buffer
	dropped int

	awaited string
	from    int           // where the search for it begins
	found   chan struct{} // closed when it has been printed; nil when nothing is awaited
}

const maxKept = 256 << 10

// await returns a channel that is closed once a text is printed after this call.
func (o *Output) await(text string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := make(chan struct{})
	if text == "" {
		close(found)
		return found
	}
	o.awaited, o.from, o.found = text, o.kept.Len(), found
	return found
}

// Write implements io.Writer; it never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := len(p)
	if o.found == nil {
		keep = min(keep, max(0, maxKept-o.kept.Len()))
	}
	o.kept.Write(p[:keep])
	o.dropped += len(p) - keep
	if o.found != nil && bytes.Contains(o.kept.Bytes()[o.from:], []byte(o.awaited)) {
		close(o.found)
		o.found = nil
	}
	return len(p), nil
}

// String returns what was kept.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped > 0 {
		return fmt.Sprintf("%s\n... and %d bytes more", o.kept.String(), o.dropped)
	}
	return o.kept.String()
}

// Contains returns an error with all that was kept unless a text is in it.
func (o *Output) Contains(text string) error {
	if log := o.String(); !strings.Contains(log, text) {
		return fmt.Errorf("%q was not printed:\n%s", text, log)
	}
	return nil
}

// errNoTool says what a machine lacks.
var errNoTool = errors.New("run make tools")

// Command runs a program that ends by itself, in a folder of its own and an environment that holds env and little else.
// It returns what that printed on both outputs, nothing else, and its exit code.
func Command(t testing.TB, env []string, binary string, args ...string) (printed string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, env...)
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	dieWithThread(cmd.SysProcAttr)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runtime.LockOSThread() // the thread that it dies with must live as long as it
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("%s %q has not ended within %v, and printed:\n%s", binary, args, Hang, &out)
	case err != nil && !errors.As(err, &ended):
		t.Fatalf("running %s %q: %v", binary, args, err)
	case strings.Contains(out.String(), "DATA RACE"):
		t.Errorf("the race detector found a data race in %s %q:\n%s", binary, args, &out)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}
