package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// wire is a connection without a client's cleverness: it repeats nothing and asks nothing on its own.
type wire struct {
	net.Conn
	replies *bufio.Reader
}

func dial(t *testing.T, addr string) wire {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return wire{c, bufio.NewReader(c)}
}

// send sends requests, of words separated by spaces, in one write.
func (w wire) send(t *testing.T, requests ...string) {
	t.Helper()
	var text strings.Builder
	for _, request := range requests {
		words := strings.Fields(request)
		fmt.Fprintf(&text, "*%d\r\n", len(words))
		for _, word := range words {
			fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
		}
	}
	_, err := io.WriteString(w, text.String())
	must(t, err)
}

// reply gives the first line of the next reply.
func (w wire) reply(within time.Duration) (string, error) {
	if err := w.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	line, err := w.replies.ReadString('\n')
	return strings.TrimSpace(line), err
}

func (w wire) want(t *testing.T, request, want string) {
	t.Helper()
	w.send(t, request)
	if got, err := w.reply(process.Hang); err != nil || got != want {
		t.Errorf("%s is answered %q, %v, want %q", request, got, err, want)
	}
}

// briefly is how long a test waits for what must not come.
const briefly = 50 * time.Millisecond

// Through a proxy with each fault, one more than 1 is counted: what Redis has counted, and what the client sees.
func TestAFaultDoesWhatItSays(t *testing.T) {
	t.Parallel()
	nothing, wasReset := os.ErrDeadlineExceeded, syscall.ECONNRESET
	for name, c := range map[string]struct {
		trap  Action
		fault func(*FaultProxy) // nil: the trap
		count string
		sees  error
	}{
		"reset-before":          {ResetBefore, nil, "1", wasReset},
		"close-before":          {CloseBefore, nil, "1", io.EOF},
		"swallow-the-reply":     {SwallowReply, nil, "2", nothing},
		"reset-after":           {ResetAfter, nil, "2", wasReset},
		"close-after":           {CloseAfter, nil, "2", io.EOF},
		"drop-requests":         {0, func(p *FaultProxy) { p.Drop(Requests) }, "1", nothing},
		"drop-replies":          {0, func(p *FaultProxy) { p.Drop(Replies) }, "2", nothing},
		"the-tail-of-a-reply":   {0, func(p *FaultProxy) { p.DropAfter(Replies, 1) }, "2", nothing},
		"the-tail-of-a-request": {0, func(p *FaultProxy) { p.DropAfter(Requests, 20) }, "1", nothing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Shared(t, "single").Servers[0]
			p := Proxy(t, s.Addr)
			w := dial(t, p.Addr)
			w.want(t, "SET "+name+" 1", "+OK")
			sprung := make(<-chan struct{})
			if c.fault == nil {
				sprung = p.Trap("INCR", c.trap)
			} else {
				c.fault(p)
			}
			w.send(t, "INCR "+name)
			if c.fault == nil {
				<-sprung
			}
			within := process.Hang
			if c.sees == nothing {
				within = briefly
			}
			if got, err := w.reply(within); !errors.Is(err, c.sees) {
				t.Errorf("the client sees %q, %v, want %v", got, err, c.sees)
			}
			process.Eventually(t, "Redis has counted "+c.count, func() error {
				if got := s.client.Get(ctx, name).Val(); got != c.count {
					return fmt.Errorf("it has counted %s", got)
				}
				return nil
			})
			p.Heal()
			if _, err := io.WriteString(w, "*1\r\n$4\r\nPING\r\n"); err == nil {
				if got, err := w.reply(briefly); err == nil {
					t.Errorf("a connection that has lost bytes goes on with %q: it may be taken for another answer", got)
				}
			}
			dial(t, p.Addr).want(t, "PING", "+PONG")
		})
	}
}

func TestAProxyCountsAndDelaysAndGoesAway(t *testing.T) {
	t.Parallel()
	next := Single(t)
	p := Proxy(t, Shared(t, "single").Servers[0].Addr)
	w := dial(t, p.Addr)
	p.Delay(Requests, briefly)
	p.Drip(Replies, time.Millisecond)
	began := time.Now()
	w.send(t, "INCR counted", "INCR counted")
	for _, want := range []string{":1", ":2"} {
		if got, err := w.reply(process.Hang); got != want {
			t.Errorf("a late reply is %q, %v, want %s", got, err, want)
		}
	}
	if took := time.Since(began); took < briefly {
		t.Errorf("with %v of latency, replies have come after %v", briefly, took)
	}
	p.Heal()
	if n := p.Counts(); p.Requests("incr") != 2 || n.Requests != 2 || n.Connections != 1 || n.Open != 1 || n.ReplyBytes != 8 {
		t.Errorf("the proxy has counted %d INCR among %+v, want 2, 1 connection that is open, and 8 bytes of replies",
			p.Requests("incr"), n)
	}
	p.Refuse()
	if _, err := net.Dial("tcp", p.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection gets %v, want that it is refused", err)
	}
	w.want(t, "PING", "+PONG")
	p.ResetAll()
	if _, err := w.reply(process.Hang); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an open connection gets %v, want a reset", err)
	}
	p.Redirect(next.Addr)
	p.Accept(t)
	w = dial(t, p.Addr)
	w.want(t, "INCR counted", ":1") // the next server has counted nothing yet
	next.Kill()
	if _, err := w.reply(process.Hang); err != io.EOF {
		t.Errorf("a connection to a dead Redis gets %v, want its end", err)
	}
}

func TestABlackHoleSwallowsConnectionsAndAnswersUntilItIsRestored(t *testing.T) {
	t.Parallel()
	far := FarProxy(t, Shared(t, "single").Servers[0].Addr)
	c := dial(t, far.Addr)
	c.want(t, "PING", "+PONG")
	far.BlackHole(t)
	c.send(t, "SET k v")
	if got, err := c.reply(briefly); err == nil {
		t.Errorf("out of the black hole comes %q", got)
	}
	if c, err := net.DialTimeout("tcp", far.Addr, briefly); err == nil && far.Real {
		c.Close()
		t.Error("a new connection into the black hole is opened")
	}
	far.Restore(t)
	dial(t, far.Addr).want(t, "PING", "+PONG")
}

func TestTheScannerFindsCommandsHoweverTheyArrive(t *testing.T) {
	for promise, c := range map[string]struct {
		sent   string
		want   []string
		opaque bool
	}{
		"a pipeline": {"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nping\r\n", []string{"GET", "PING"}, false},
		"an argument that looks like a command": {
			"*3\r\n$3\r\nSET\r\n$10\r\n*1\r\n$4\r\nPI\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n", []string{"SET", "PING"}, false},
		"no protocol": {"PING\r\n*1\r\n$4\r\nPING\r\n", nil, true},
		"no lines":    {strings.Repeat("\x16", 100), nil, true},
	} {
		for at := range c.sent {
			var s scanner
			got := append(s.scan([]byte(c.sent[:at])), s.scan([]byte(c.sent[at:]))...)
			if !slices.Equal(got, c.want) || s.opaque != c.opaque {
				t.Errorf("%s cut at %d: %q, opaque %v, want %q and %v", promise, at, got, s.opaque, c.want, c.opaque)
			}
		}
	}
}
