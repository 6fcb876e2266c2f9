package server

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// newLine listens for connections that are made by its Dial. Nothing of them is the kernel's, so their time is that of
// the test.
func newLine() *bufconn.Listener { return bufconn.Listen(1 << 16) }

// greet runs a test of a server whose clients take their time, none of which passes outside.
func greet(t *testing.T, do func(t *testing.T, line *bufconn.Listener)) {
	synctest.Test(t, func(t *testing.T) {
		line := newLine()
		r := start(t, setup{grpc: line})
		r.configure(t)
		do(t, line)
		r.stop()
		r.kill()
		<-r.ended
	})
}

func TestConnectionsThatNeverFinishTheirGreetingAreClosed(t *testing.T) {
	for what, sent := range map[string]string{
		"nothing":                        "",
		"half a preface":                 preface[:len(preface)/2],
		"a preface without settings":     preface,
		"a preface and half of settings": preface + "\x00\x00\x00\x04",
	} {
		greet(t, func(t *testing.T, line *bufconn.Listener) {
			began := time.Now()
			conn, err := line.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() { _, _ = io.WriteString(conn, sent) }()
			_ = conn.SetReadDeadline(began.Add(10 * handshakeTimeout))
			_, err = io.Copy(io.Discard, conn)
			if took := time.Since(began); took != handshakeTimeout {
				t.Errorf("a connection that has sent %s is open for %v (%v), want %v: such connections would use up the process's files",
					what, took, err, handshakeTimeout)
			}
		})
	}
}

// dripping is a connection that sends its first bytes one by one.
type dripping struct {
	net.Conn
	left int // bytes that are sent slowly
}

func (d *dripping) Write(b []byte) (n int, err error) {
	for n < len(b) && d.left > 0 && err == nil {
		time.Sleep(100 * time.Millisecond)
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
	greet(t, func(t *testing.T, line *bufconn.Listener) {
		dials := 0
		conn, err := grpc.NewClient("passthrough:///weir", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
				dials++
				slow, err := line.Dial()
				return &dripping{slow, len(preface) + 20}, err
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		r := running{conn: conn}
		for range 2 {
			if _, err := r.client().ShouldRateLimit(t.Context(), request("shop", "ann"), grpc.WaitForReady(true)); err != nil {
				t.Errorf("a client that greets byte by byte got %v; want an answer", err)
			}
			time.Sleep(handshakeTimeout + time.Second)
		}
		if dials != 1 {
			t.Errorf("the client connected %d times, want once: the bound is of the greeting, not of the connection", dials)
		}
	})
}
