package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// memcachedServer is one that weir counts in.
type memcachedServer struct {
	process *process.Process
	release func()
	addr    string
}

// startMemcached runs a memcached with one thread, as Redis has one.
func startMemcached() (*memcachedServer, error) {
	binary, err := exec.LookPath("memcached")
	if err != nil {
		return nil, errors.Join(err, errors.New("make tools installs memcached; --only leaves its scenarios out"))
	}
	port, release, err := process.HoldPort()
	if err != nil {
		return nil, err
	}
	m := &memcachedServer{release: release, addr: fmt.Sprint("127.0.0.1:", port)}
	cmd := exec.Command(binary, "-l", "127.0.0.1", "-p", fmt.Sprint(port), "-U", "0", "-u", "root", "-t", "1", "-m", "256")
	if m.process, err = process.Launch("memcached", cmd, new(process.Output), ""); err != nil {
		release()
		return nil, err
	}
	return m, m.process.Await(func() error {
		c, err := net.Dial("tcp", m.addr)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

func (m *memcachedServer) cpu() (time.Duration, error) { return cpuTime(m.process.Pid()) }

func (m *memcachedServer) close() {
	m.process.Kill()
	m.release()
}

// commandCost measures what one incr costs the server, in microseconds of its CPU, when a client sends 32 at a time.
func (m *memcachedServer) commandCost(ctx context.Context, duration time.Duration) (micros float64, err error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", m.addr)
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
	return costOf(m, func() error { return talk("incr bench_incr_%05d_1795000000 1\r\n") }, err, duration)
}

// races are what weirs on memcached have counted.
type races struct{ exchanges, lost float64 }

// races asks a server, and others with it, for them.
func (s *server) races() (sum races, err error) {
	if _, are := s.store.(*memcachedServer); !are {
		return sum, nil
	}
	for _, one := range append(s.others, s) {
		shown, err := weirtest.Scrape(fmt.Sprintf("http://127.0.0.1:%d/metrics", one.debug))
		if err != nil {
			return sum, err
		}
		sum.exchanges += shown["weir_memcached_exchanges_total"]
		sum.lost += shown["weir_memcached_lost_races_total"]
	}
	return sum, nil
}
