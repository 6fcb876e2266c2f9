package server

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func TestConnectionsThatNeverFinishTheirGreetingAreClosed(t *testing.T) {
	t.Parallel()
	r := start(t, Config{})
	var waiting sync.WaitGroup
	for what, sent := range map[string]string{
		"nothing":                        "",
		"half a preface":                 preface[:len(preface)/2],
		"a preface without settings":     preface,
		"a preface and half of settings": preface + "\x00\x00\x00\x04",
	} {
		for range 25 {
			conn, err := net.Dial("tcp", r.grpcLis.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			waiting.Go(func() {
				began := time.Now()
				_ = conn.SetReadDeadline(began.Add(10 * greeting))
				if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("a connection that has sent %s is open after %v: such connections would use up the process's files",
						what, time.Since(began))
				}
			})
		}
	}
	waiting.Wait()
}

// dripping is a connection that sends its first bytes one by one.
type dripping struct {
	net.Conn
	left int // bytes that are sent slowly
}

func (d *dripping) Write(b []byte) (n int, err error) {
	for n < len(b) && d.left > 0 && err == nil {
		time.Sleep(10 * time.Millisecond)
		var sent int
		sent, err = d.Conn.Write(b[n : n+1])
		n, d.left = n+sent, d.left-1
	}
	if n == len(b) || err != nil {
		return n, err
	}
	sent, err := d.Conn.Write(b[n:])
	return n + sent, err
}

func TestASlowGreetingIsWaitedForAndItsConnectionStays(t *testing.T) {
	t.Parallel()
	r := start(t, Config{})
	r.configure(t)
	dials := 0
	conn, err := grpc.NewClient("passthrough:///"+r.grpcLis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			dials++
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			return &dripping{c, len(preface) + 20}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := ratelimit.NewRateLimitServiceClient(conn)
	ask := func() {
		t.Helper()
		if _, err := client.ShouldRateLimit(t.Context(), request("shop", "ann"), grpc.WaitForReady(true)); err != nil {
			t.Errorf("a client that greets byte by byte got %v; want an answer", err)
		}
	}
	ask()
	time.Sleep(greeting + time.Second)
	ask()
	if dials != 1 {
		t.Errorf("the client connected %d times, want once: the bound is of the greeting, not of the connection", dials)
	}
}
