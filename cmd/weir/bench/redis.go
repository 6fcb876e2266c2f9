package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// pipelined is how many INCRBYs go to Redis at once when one of them is measured.
const pipelined = 32

// yardstickTime is how long INCRBYs are measured, unless the measurements themselves are shorter.
const yardstickTime = time.Second

// store is a redis-server that weir counts in.
type store struct {
	addr  string
	pid   int
	child *child
}

// errNoRedis says what to do about a missing redis-server.
var errNoRedis = errors.New("redis-server is not on PATH: install it with make tools, " +
	"or leave the scenarios on Redis out with --no-redis")

// startStore runs a redis-server that keeps nothing on disk, and returns when it answers.
func startStore(ctx context.Context, dir string) (*store, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(running, binary, "--bind", "127.0.0.1", "--port", ports[0], "--save", "",
		"--appendonly", "no", "--dir", dir)
	stop := func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	c, err := startChild(cmd, cancel, filepath.Join(dir, "redis.log"), stop)
	if err != nil {
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	s := &store{addr: net.JoinHostPort("127.0.0.1", ports[0]), pid: cmd.Process.Pid, child: c}
	if err := s.await(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// await returns when the server answers a PING.
func (s *store) await(ctx context.Context) error {
	deadline := time.Now().Add(startTimeout)
	for {
		err := s.session(ctx, patience, func(conn net.Conn, in *bufio.Reader) error {
			return exchange(conn, in, []byte("*1\r\n$4\r\nPING\r\n"), 1)
		})
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server does not answer: %w\n%s", err, s.child.lastWords())
		}
		select {
		case <-s.child.done:
			return fmt.Errorf("redis-server ended before it served (%v):\n%s", s.child.err, s.child.lastWords())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// session runs f on a connection of its own, which breaks after limit.
func (s *store) session(ctx context.Context, limit time.Duration, f func(net.Conn, *bufio.Reader) error) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is under way on it any more
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	return f(conn, bufio.NewReader(conn))
}

// cpu returns the processor time that the server has used so far; none without a server.
func (s *store) cpu() (time.Duration, error) {
	if s == nil {
		return 0, nil
	}
	return cpuTime(s.pid)
}

// yardstick measures what one INCRBY costs the server, in microseconds of its CPU, when a client sends 32 at a time.
// They count on keys of their own, as many as the scenarios have.
func (s *store) yardstick(ctx context.Context, keys int, duration time.Duration) (micros float64, err error) {
	batches := incrBys(keys)
	err = s.session(ctx, duration+patience, func(conn net.Conn, in *bufio.Reader) error {
		for _, batch := range batches { // make the keys
			if err := exchange(conn, in, batch, pipelined); err != nil {
				return err
			}
		}
		before, err := s.cpu()
		if err != nil {
			return err
		}
		done := 0
		for until := time.Now().Add(min(duration, yardstickTime)); time.Now().Before(until) && ctx.Err() == nil; done++ {
			if err := exchange(conn, in, batches[done%len(batches)], pipelined); err != nil {
				return err
			}
		}
		after, err := s.cpu()
		micros = float64((after - before).Nanoseconds()) / 1e3 / float64(max(done, 1)*pipelined)
		return errors.Join(err, ctx.Err())
	})
	if err != nil {
		return 0, fmt.Errorf("measure INCRBY on redis-server: %w", err)
	}
	return micros, nil
}

// incrBys encodes an INCRBY for each of keys, and more until they are whole pipelines.
func incrBys(keys int) [][]byte {
	var batches [][]byte
	for first := 0; first < keys; first += pipelined {
		var b bytes.Buffer
		for i := range pipelined {
			key := fmt.Sprintf("bench:incrby:%05d", (first+i)%keys)
			fmt.Fprintf(&b, "*3\r\n$6\r\nINCRBY\r\n$%d\r\n%s\r\n$1\r\n1\r\n", len(key), key)
		}
		batches = append(batches, b.Bytes())
	}
	return batches
}

// exchange sends commands and reads as many replies of one line.
func exchange(conn net.Conn, in *bufio.Reader, commands []byte, replies int) error {
	if _, err := conn.Write(commands); err != nil {
		return err
	}
	for range replies {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if line[0] != ':' && line[0] != '+' {
			return fmt.Errorf("it answered %q", line)
		}
	}
	return nil
}

// close stops the server.
func (s *store) close() { s.child.end() }
