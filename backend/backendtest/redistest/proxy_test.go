package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
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
		"reset-before":      {ResetBefore, nil, "1", wasReset},
		"close-before":      {CloseBefore, nil, "1", io.EOF},
		"swallow-the-reply": {SwallowReply, nil, "2", nothing},
		"reset-after":       {ResetAfter, nil, "2", wasReset},
		"close-after":       {CloseAfter, nil, "2", io.EOF},
		"drop-requests":     {0, func(p *FaultProxy) { p.Drop(Requests) }, "1", nothing},
		"drop-replies":      {0, func(p *FaultProxy) { p.Drop(Replies) }, "2", nothing},
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
