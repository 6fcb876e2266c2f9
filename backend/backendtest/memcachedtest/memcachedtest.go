// Package memcachedtest runs real memcached processes for tests, and asks them in the words of memcached's protocol. It
// takes the memcached on PATH, and fails without one.
package memcachedtest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// Server is a memcached on a port of 127.0.0.1. It ends with its test.
type Server struct {
	Addr string                  // host:port
	TLS  *redistest.Certificates // nil without TLS

	t    testing.TB
	args []string
	run  *process.Process
}

// Start starts a server, with more arguments, and waits until it answers.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartAt(t, process.Addr(t), args...)
}

// StartAt is Start at a host:port.
func StartAt(t testing.TB, addr string, args ...string) *Server {
	t.Helper()
	s := &Server{Addr: addr, t: t, args: args}
	s.Restart()
	return s
}

// StartTLS starts a server that talks TLS only, with clients that show their certificate.
func StartTLS(t testing.TB) *Server {
	t.Helper()
	c := redistest.MakeCertificates(t)
	s := &Server{Addr: process.Addr(t), TLS: c, t: t,
		args: []string{"-Z", "-o", "ssl_chain_cert=" + c.Cert + ",ssl_key=" + c.Key + ",ssl_ca_cert=" + c.CA + ",ssl_verify_mode=2"}}
	s.Restart()
	return s
}

// StartAll starts so many servers, and returns their addresses.
func StartAll(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for range n {
		addrs = append(addrs, Start(t).Addr)
	}
	return addrs
}

// Restart starts a server that was killed, on its port, empty.
func (s *Server) Restart() {
	s.t.Helper()
	binary, err := exec.LookPath("memcached")
	if err != nil {
		s.t.Fatalf("%v: run make tools", err)
	}
	_, port, _ := net.SplitHostPort(s.Addr)
	args := append([]string{"-l", "127.0.0.1", "-p", port, "-U", "0", "-u", "root", "-t", "2", "-m", "64"}, s.args...)
	s.run = process.Start(s.t, "memcached", nil, binary, args...)
	s.run.AwaitReady(s.t, func() error {
		_, err := s.ask("version\r\n", 1)
		return err
	})
}

// Kill ends the process as kill -9 does.
func (s *Server) Kill() { s.run.Kill() }

// Freeze stops the process: the kernel goes on to accept its connections. Thaw lets it go on.
func (s *Server) Freeze() { s.run.Signal(s.t, syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.run.Signal(s.t, syscall.SIGCONT) }

// Ask sends commands to a server, and returns so many lines of its answer.
func (s *Server) Ask(commands string, lines int) string {
	s.t.Helper()
	answer, err := s.ask(commands, lines)
	if err != nil {
		s.t.Fatalf("asking memcached %q: %v", commands, err)
	}
	return answer
}

// Number returns what the key of a number holds, 0 if it is not there.
func (s *Server) Number(name string) int {
	s.t.Helper()
	answer := s.Ask("get "+name+"\r\n", 1)
	if answer == "END" {
		return 0
	}
	value := strings.Split(s.Ask("get "+name+"\r\n", 2), "\n")[1]
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil {
		s.t.Fatalf("the key %s of memcached holds %q", name, value)
	}
	return n
}

func (s *Server) ask(commands string, lines int) (string, error) {
	c, err := net.DialTimeout("tcp", s.Addr, process.Hang)
	if err != nil {
		return "", err
	}
	if s.TLS != nil {
		config := s.TLS.Client()
		config.ServerName = "localhost"
		c = tls.Client(c, config)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(process.Hang)) // what fails, the write tells
	if _, err := io.WriteString(c, commands); err != nil {
		return "", err
	}
	in := bufio.NewScanner(c)
	var answer []string
	for len(answer) < lines && in.Scan() {
		answer = append(answer, in.Text())
	}
	if len(answer) < lines {
		return "", fmt.Errorf("after %q it ended: %v", answer, in.Err())
	}
	return strings.Join(answer, "\n"), nil
}
