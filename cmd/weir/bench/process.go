package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stopTimeout is how long a child may take to end before it is killed.
const stopTimeout = 30 * time.Second

// child is a process that the bench started.
type child struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc // asks it to end, and kills it after stopTimeout
	done   chan struct{}      // closed when it has ended
	err    error              // how it ended; to be read once done is closed
	log    string             // the file with what it wrote
}

// startChild runs cmd, made with a context that cancel ends, with its output in the file log. stop asks it to end.
func startChild(cmd *exec.Cmd, cancel context.CancelFunc, log string, stop func() error) (*child, error) {
	out, err := os.Create(log)
	if err != nil {
		cancel()
		return nil, err
	}
	defer func() { _ = out.Close() }() // the process has its own
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel, cmd.WaitDelay = stop, stopTimeout
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	c := &child{cmd: cmd, cancel: cancel, done: make(chan struct{}), log: log}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// end stops the process and returns when it is gone.
func (c *child) end() {
	c.cancel()
	<-c.done
}

// lastWords returns the end of what the process wrote.
func (c *child) lastWords() string {
	const enough = 2000
	out, err := os.ReadFile(c.log)
	if err != nil {
		return ""
	}
	return string(out[max(0, len(out)-enough):])
}

// startFloor runs the floor server as a child of this binary.
func startFloor(ctx context.Context, connections int, dir string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("floor server: find the bench binary: %w", err)
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, fmt.Errorf("floor server: %w", err)
	}
	addr := net.JoinHostPort("127.0.0.1", ports[0])
	running, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, self, floorArgument, addr)
	cmd.Env = []string{} // as for weir; nil would hand on the bench's own
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("floor server: %w", err)
	}
	c, err := startChild(cmd, cancel, filepath.Join(dir, "floor.log"), in.Close)
	if err != nil {
		return nil, fmt.Errorf("floor server: %w", err)
	}
	return connect(ctx, &server{name: "floor", addr: addr, pid: cmd.Process.Pid, child: c}, connections)
}

// startWeir runs binary on the rules of descriptors.yaml. Nothing of the bench's own environment reaches it: a stray
// REDIS_URL or GOGC would change what is measured. extra (NAME=VALUE) comes last and so wins.
func startWeir(ctx context.Context, binary string, extra []string, connections int, dir string) (*server, error) {
	config := filepath.Join(dir, "config")
	if err := os.Mkdir(config, 0o755); err != nil {
		return nil, fmt.Errorf("weir: %w", err)
	}
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), descriptorFile, 0o644); err != nil {
		return nil, fmt.Errorf("weir: %w", err)
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, fmt.Errorf("weir: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, binary, "serve", "--config", config)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir,
		"GRPC_HOST=127.0.0.1", "HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		"GRPC_PORT=" + ports[0], "PORT=" + ports[1], "DEBUG_PORT=" + ports[2],
		"BACKEND_TYPE=memory", "DATA_DIR=" + filepath.Join(dir, "data"), "HISTORY=false", "DRAIN_DELAY=0s",
	}, extra...)
	stop := func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	c, err := startChild(cmd, cancel, filepath.Join(dir, "weir.log"), stop)
	if err != nil {
		return nil, fmt.Errorf("weir: %w", err)
	}
	addr := net.JoinHostPort("127.0.0.1", ports[0])
	return connect(ctx, &server{name: "weir", addr: addr, pid: cmd.Process.Pid, child: c}, connections)
}

// buildWeir builds the weir command of this module into dir and returns the binary's path.
func buildWeir(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "weir")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/weirproxy/weir/cmd/weir")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build weir: %w\n%s", err, out)
	}
	return binary, nil
}

// freePorts finds n free ports of the loopback interface. Another process may take one before the child does; then the
// child says so and ends.
func freePorts(n int) ([]string, error) {
	ports := make([]string, 0, n)
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }() // all stay open until there are n, so that they differ
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		ports = append(ports, port)
	}
	return ports, nil
}
