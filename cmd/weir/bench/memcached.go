package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// numbers is a memcached that weir counts in.
type numbers struct {
	process *process.Process
	release func()
	addr    string
}

// startNumbers runs a memcached with one thread, as Redis has one.
func startNumbers() (*numbers, error) {
	binary, err := exec.LookPath("memcached")
	if err != nil {
		return nil, errors.Join(err, errors.New("make tools installs memcached; --only leaves its scenarios out"))
	}
	port, release, err := process.HoldPort()
	if err != nil {
		return nil, err
	}
	n := &numbers{release: release, addr: fmt.Sprint("127.0.0.1:", port)}
	cmd := exec.Command(binary, "-l", "127.0.0.1", "-p", fmt.Sprint(port), "-U", "0", "-u", "root", "-t", "1", "-m", "256")
	if n.process, err = process.Launch("memcached", cmd, new(process.Output), ""); err == nil {
		err = n.process.Await(func() error {
			c, err := net.Dial("tcp", n.addr)
			if err == nil {
				err = c.Close()
			}
			return err
		})
	}
	return n, err
}

// settings are those of a weir that counts in it.
func (n *numbers) settings() []string {
	return []string{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + n.addr}
}

func (n *numbers) cpu() (time.Duration, error) { return cpuTime(n.process.Pid()) }

func (n *numbers) close() {
	n.process.Kill()
	n.release()
}

// yardstick measures what one incr costs the server, in microseconds of its CPU, when a client sends 32 at a time.
func (n *numbers) yardstick(ctx context.Context, duration time.Duration) (micros float64, err error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", n.addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	in, next := bufio.NewReader(c), 0
	talk := func(command string) error {
		var text strings.Builder
		for range pipelined {
			_, _ = fmt.Fprintf(&text, command, next%keys) // a Builder takes all
			next++
		}
		if _, err := c.Write([]byte(text.String())); err != nil {
			return err
		}
		for range pipelined {
			if _, err := in.ReadSlice('\n'); err != nil {
				return err
			}
		}
		return nil
	}
	for next < keys && err == nil { // make the keys
		err = talk("set bench_incr_%05d_1795000000 0 0 1\r\n1\r\n")
	}
	return costOf(n, func() error { return talk("incr bench_incr_%05d_1795000000 1\r\n") }, err, duration)
}

// races are what weirs on memcached have counted.
type races struct{ exchanges, lost float64 }

// races asks a server, and others with it, for them.
func (s *server) races() (sum races, err error) {
	if _, are := s.store.(*numbers); !are {
		return sum, nil
	}
	for _, one := range append(s.others, s) {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", one.debug))
		if err != nil {
			return sum, err
		}
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() {
			var n float64
			if _, err := fmt.Sscanf(lines.Text(), "weir_memcached_exchanges_total %g", &n); err == nil {
				sum.exchanges += n
			}
			if _, err := fmt.Sscanf(lines.Text(), "weir_memcached_lost_races_total %g", &n); err == nil {
				sum.lost += n
			}
		}
		if err := errors.Join(lines.Err(), answer.Body.Close()); err != nil {
			return sum, err
		}
	}
	return sum, nil
}
