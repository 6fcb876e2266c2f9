package redistest_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

var ctx = context.Background()

// client returns a client as a test's subject would have it, not the server's own.
func client(t *testing.T, options *redis.Options) *redis.Client {
	t.Helper()
	options.MaxRetries, options.DialerRetries, options.ContextTimeoutEnabled = -1, 1, true
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = hang, hang, hang
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wantError wants an error that says text.
func wantError(t *testing.T, promise string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got the error %v, want one with %q", promise, err, text)
	}
}

func TestKillRestartAndFreeze(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	c := client(t, &redis.Options{Addr: s.Addr})
	must(t, c.Set(ctx, "k", "v", 0).Err())

	s.Stop()
	hasty, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := c.Get(hasty, "k").Err(); err == nil {
		t.Error("a frozen server answers")
	}
	s.Cont()
	if got, err := c.Get(ctx, "k").Result(); err != nil || got != "v" {
		t.Errorf("after its sleep the server answers %q, %v, want v", got, err)
	}

	s.Kill()
	if s.Running() {
		t.Error("a killed server runs")
	}
	wantError(t, "a killed server refuses", c.Get(ctx, "k").Err(), "refused")
	s.Restart(t)
	if err := c.Get(ctx, "k").Err(); err != redis.Nil {
		t.Errorf("a server restarted at its address answers %v, want that it is empty", err)
	}
	must(t, s.Client().Ping(ctx).Err())
}

func TestPersistenceOnDemand(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.WithConfig("appendonly yes", "appendfsync always"))
	must(t, s.Client().Set(ctx, "k", "v", 0).Err())
	s.Restart(t)
	if got := s.Client().Get(ctx, "k").Val(); got != "v" {
		t.Errorf("after kill -9 a server that writes everything has %q, want v", got)
	}
}

func TestStatsCountCommandsAndReads(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	ten := func(p redis.Pipeliner) error {
		for range 10 {
			p.Incr(ctx, "n")
		}
		return nil
	}
	_, err := s.Client().Pipelined(ctx, ten) // connects
	must(t, err)
	commands, reads, cpu := s.Stat(t, "total_commands_processed"), s.Stat(t, "total_reads_processed"), s.CPU(t)
	_, err = s.Client().Pipelined(ctx, ten)
	must(t, err)
	if got := s.Stat(t, "total_commands_processed") - commands; got != 13 {
		t.Errorf("3 questions and 10 commands are %d, want 13: what a test did not send disturbs its counts", got)
	}
	if got := s.Stat(t, "total_reads_processed") - reads; got != 4 {
		t.Errorf("3 questions and a pipeline of 10 are %d reads, want 4", got)
	}
	if got := s.CPU(t); got < cpu || got == 0 {
		t.Errorf("the server used %v, and %v before", got, cpu)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.WithUnixSocket())
	must(t, client(t, &redis.Options{Network: "unix", Addr: s.Socket}).Ping(ctx).Err())
}

func TestPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.WithPassword(`se "cret`))
	wantError(t, "without the password", client(t, &redis.Options{Addr: s.Addr}).Ping(ctx).Err(), "NOAUTH")
	must(t, client(t, &redis.Options{Addr: s.Addr, Password: `se "cret`}).Ping(ctx).Err(), s.Client().Ping(ctx).Err())
}

func TestACLRefusesWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.WithACL("weir", "secret", "~weir:*", "+get"))
	c := client(t, &redis.Options{Addr: s.Addr, Username: "weir", Password: "secret"})
	if err := c.Get(ctx, "weir:k").Err(); err != redis.Nil {
		t.Errorf("GET of its own key is answered with %v, want that there is none", err)
	}
	wantError(t, "another command", c.Set(ctx, "weir:k", "v", 0).Err(), "NOPERM")
	wantError(t, "another key", c.Get(ctx, "k").Err(), "NOPERM")
	wantError(t, "a wrong password",
		client(t, &redis.Options{Addr: s.Addr, Username: "weir", Password: "x"}).Ping(ctx).Err(), "WRONGPASS")
	wantError(t, "nobody", client(t, &redis.Options{Addr: s.Addr}).Ping(ctx).Err(), "NOAUTH")
	must(t, s.Client().Set(ctx, "k", "v", 0).Err())
}

func TestTLSWantsAClientCertificate(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.WithTLS())
	must(t, client(t, &redis.Options{Addr: s.Addr, TLSConfig: s.TLS.Client()}).Ping(ctx).Err())

	pair, err := tls.LoadX509KeyPair(s.TLS.Cert, s.TLS.Key)
	must(t, err)
	withoutCA := &tls.Config{Certificates: []tls.Certificate{pair}}
	wantError(t, "a client that does not trust the CA",
		client(t, &redis.Options{Addr: s.Addr, TLSConfig: withoutCA}).Ping(ctx).Err(), "unknown authority")

	withoutCert := s.TLS.Client()
	withoutCert.Certificates = nil
	wantError(t, "a client without a certificate", listen(s.Addr, withoutCert), "certificate required")

	stranger := redistest.Single(t, redistest.WithTLS())
	wrongCert := s.TLS.Client()
	wrongCert.Certificates = stranger.TLS.Client().Certificates
	wantError(t, "a client with a stranger's certificate", listen(s.Addr, wrongCert), "unknown certificate authority")

	if err := client(t, &redis.Options{Addr: s.Addr}).Ping(ctx).Err(); err == nil {
		t.Error("a client without TLS is served")
	}
}

// listen says nothing, which could cross with what the server has to say about the client's certificate.
func listen(addr string, config *tls.Config) error {
	c, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Read(make([]byte, 1))
	return err
}

func TestRingNodesAreIndependent(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 3)
	for _, node := range nodes {
		must(t, node.Client().Set(ctx, "at", node.Addr, 0).Err())
	}
	for _, node := range nodes {
		if got := node.Client().Get(ctx, "at").Val(); got != node.Addr {
			t.Errorf("%s has what was written to %q", node.Addr, got)
		}
	}
}
