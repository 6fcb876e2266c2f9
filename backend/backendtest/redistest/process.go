package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errTaken says that somebody else got the port between its choice and its use.
var errTaken = errors.New("the port is taken")

// process is one run of a binary.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended

	stopped atomic.Bool // it was told to end
}

// run starts a process in dir, with some more variables, and waits until it has printed ready.
func run(log *Output, ready, dir string, environment []string, binary string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), done: make(chan struct{})}
	printed := &search{text: ready, found: make(chan struct{})}
	both := io.MultiWriter(log, printed)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, both, both
	p.cmd.Env = append(p.cmd.Environ(), environment...)
	p.cmd.WaitDelay = time.Second // a child that saves may hold the pipe for a while
	p.cmd.SysProcAttr = diesWithItsThread()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread that it dies with must live as long as it
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended stands in ProcessState
			if !p.stopped.Load() {
				_, _ = fmt.Fprintf(log, "(it was not told to end, and has: %v)\n", p.cmd.ProcessState)
			}
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	select {
	case <-printed.found:
		return p, nil
	case <-p.done:
		if printed.contains("Address already in use") {
			return nil, errTaken
		}
		return nil, fmt.Errorf("%s has ended (%v) before it was ready:\n%s", binary, p.cmd.ProcessState, log)
	case <-time.After(startTime):
		p.kill()
		return nil, fmt.Errorf("%s has not printed %q within %v:\n%s", binary, ready, startTime, log)
	}
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	p.stopped.Store(true)
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal does nothing to a process that has ended.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ports remembers what freePort gave away: a server that is down for a while keeps its port.
var ports sync.Map

// freePort returns a port of 127.0.0.1 that nobody listens on. It lies below those that the kernel gives to whoever
// connects or listens without naming one, so that a server that is started again finds it free. With bus, the port that
// a cluster's nodes talk on, 10,000 further, is free as well.
func freePort(bus bool) (int, error) {
	for range 1000 {
		port := 10_000 + rand.IntN(6_000)
		if !isFree(port) || bus && !isFree(port+busOffset) {
			continue
		}
		if _, taken := ports.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
	return 0, errors.New("of 1,000 ports between 10000 and 16000 none is free")
}

const busOffset = 10_000

func isFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// search looks for a text in what is written to it.
type search struct {
	text  string
	found chan struct{} // closed when it has been

	mu   sync.Mutex
	read bytes.Buffer
	done bool
}

func (s *search) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return len(p), nil
	}
	s.read.Write(p)
	if bytes.Contains(s.read.Bytes(), []byte(s.text)) {
		s.done = true
		close(s.found)
	}
	return len(p), nil
}

func (s *search) contains(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.read.Bytes(), []byte(text))
}

// Output keeps what a process printed: the first 256 KiB, and how much more there was. It may be written to and read at
// the same time.
type Output struct {
	mu      sync.Mutex
	kept    bytes.Buffer
	dropped int
}

const maxKept = 256 << 10

// Write implements io.Writer; it never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := min(len(p), maxKept-o.kept.Len())
	o.kept.Write(p[:keep])
	o.dropped += len(p) - keep
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
