package server

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// newListener returns a listener in memory, so that connections use the clock of the synctest bubble.
func newListener() *bufconn.Listener { return bufconn.Listen(1 << 16) }

// A client that connects and sends nothing is disconnected at the handshake's timeout.
func TestUnfinishedGreetingsAreClosed(t *testing.T) {
	for what, sent := range map[string]string{
		"nothing":                        "",
		"half a preface":                 preface[:len(preface)/2],
		"a preface without settings":     preface,
		"a preface and half of settings": preface + "\x00\x00\x00\x04",
	} {
		synctest.Test(t, func(t *testing.T) {
			line := newListener()
			r := start(t, setup{grpc: line})
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
			r.stop()
			r.kill()
			<-r.ended
		})
	}
}
