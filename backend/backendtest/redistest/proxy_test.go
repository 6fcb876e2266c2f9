package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
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

func (w wire) wantReply(t *testing.T, request, want string) {
	t.Helper()
	w.send(t, request)
	if got, err := w.reply(hang); err != nil || got != want {
		t.Errorf("%s is answered %q, %v, want %q", request, got, err, want)
	}
}

// wantCount wants Redis to have counted n hits, or to be about to.
func wantCount(t *testing.T, s *redistest.Server, n string) {
	t.Helper()
	for deadline := time.Now().Add(hang); ; time.Sleep(5 * time.Millisecond) {
		got := s.Client().Get(ctx, "n").Val()
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Redis has counted %q, want %q", got, n)
		}
	}
}

func TestProxyWithoutFaultsOnlyCounts(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.WithUnixSocket())
	for _, target := range []string{s.Addr, s.Socket} {
		p := redistest.Proxy(t, target)
		c := client(t, &redis.Options{Addr: p.Addr})
		must(t, c.Del(ctx, "n").Err())
		for range 10 {
			must(t, c.Incr(ctx, "n").Err())
		}
		wantCount(t, s, "10")
		value := strings.Repeat("v", 1<<20)
		must(t, c.Set(ctx, "k", value, 0).Err())
		if got := c.Get(ctx, "k").Val(); got != value {
			t.Errorf("a value of 1 MiB comes back with %d bytes", len(got))
		}
		counts := p.Counts()
		if counts.Connections != 1 || counts.Open != 1 || counts.RequestBytes < 1<<20 || counts.ReplyBytes < 1<<20 {
			t.Errorf("the proxy has counted %+v", counts)
		}
		if p.Requests("incr") != 10 || p.Requests("SET") != 1 || counts.Requests < 13 {
			t.Errorf("the proxy has counted %d INCR and %d SET among %d, want 10, 1 and more than both",
				p.Requests("incr"), p.Requests("SET"), counts.Requests)
		}
	}
}

func TestTrapSaysWhetherRedisHasCounted(t *testing.T) {
	t.Parallel()
	timeout := func(err error) bool { var n net.Error; return errors.As(err, &n) && n.Timeout() }
	wasReset := func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
	closed := func(err error) bool { return err == io.EOF }
	for _, c := range []struct {
		name   string
		action redistest.Action
		want   string
		err    func(error) bool
	}{
		{"reset before", redistest.ResetBefore, "1", wasReset},
		{"close before", redistest.CloseBefore, "1", closed},
		{"swallow the reply", redistest.SwallowReply, "2", timeout},
		{"reset after", redistest.ResetAfter, "2", wasReset},
		{"close after", redistest.CloseAfter, "2", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := redistest.Single(t)
			p := redistest.Proxy(t, s.Addr)
			w := dial(t, p.Addr)
			sprung := p.Trap("INCR", c.action)
			w.wantReply(t, "SET n 1", "+OK")
			w.send(t, "INCR n")
			await(t, "the trap springs", sprung)
			wantCount(t, s, c.want)
			within := hang
			if c.action == redistest.SwallowReply {
				within = 100 * time.Millisecond // nothing comes, however long it is waited for
			}
			if _, err := w.reply(within); !c.err(err) {
				t.Errorf("the client sees %v", err)
			}
			dial(t, p.Addr).wantReply(t, "PING", "+PONG") // a trap springs once
		})
	}
}

func await(t *testing.T, promise string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(hang):
		t.Fatalf("not within %v: %s", hang, promise)
	}
}

func TestDelayIsALatencyEachWay(t *testing.T) {
	t.Parallel()
	p := redistest.Proxy(t, redistest.Single(t).Addr)
	w := dial(t, p.Addr)
	w.wantReply(t, "PING", "+PONG")
	p.Delay(redistest.Requests, 30*time.Millisecond)
	p.Delay(redistest.Replies, 20*time.Millisecond)
	began := time.Now()
	for range 5 {
		w.send(t, "PING")
	}
	for range 5 {
		if got, err := w.reply(hang); got != "+PONG" {
			t.Fatalf("a late reply is %q, %v, want +PONG", got, err)
		}
	}
	took := time.Since(began)
	t.Logf("5 requests together took %v", took)
	if took < 50*time.Millisecond {
		t.Errorf("with 50 ms of latency, replies have come after %v", took)
	}
	p.Heal()
	w.wantReply(t, "PING", "+PONG")
}

func TestDropLosesOneDirection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		drop    func(*redistest.FaultProxy)
		counted string
	}{
		{"requests", func(p *redistest.FaultProxy) { p.Drop(redistest.Requests) }, "1"},
		{"replies", func(p *redistest.FaultProxy) { p.Drop(redistest.Replies) }, "2"},
		{"the tail of a reply", func(p *redistest.FaultProxy) { p.DropAfter(redistest.Replies, 1) }, "2"},
		{"the tail of a request", func(p *redistest.FaultProxy) { p.DropAfter(redistest.Requests, 20) }, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := redistest.Single(t)
			p := redistest.Proxy(t, s.Addr)
			mute := dial(t, p.Addr)
			mute.wantReply(t, "SET n 1", "+OK")
			c.drop(p)
			mute.send(t, "INCR n")
			if got, err := mute.reply(100 * time.Millisecond); err == nil {
				t.Errorf("the reply %q has not been lost", got)
			}
			wantCount(t, s, c.counted)
			p.Heal()
			dial(t, p.Addr).wantReply(t, "PING", "+PONG")
			mute.send(t, "PING")
			if got, err := mute.reply(100 * time.Millisecond); err == nil {
				t.Errorf("a connection that has lost bytes goes on with %q: it may be taken for another answer", got)
			}
		})
	}
}

func TestResetAllRefuseAndAccept(t *testing.T) {
	t.Parallel()
	p := redistest.Proxy(t, redistest.Single(t).Addr)
	w := dial(t, p.Addr)
	w.wantReply(t, "PING", "+PONG")
	p.Refuse()
	p.Refuse()
	if _, err := net.Dial("tcp", p.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection gets %v, want that it is refused", err)
	}
	w.wantReply(t, "PING", "+PONG")
	p.ResetAll()
	if _, err := w.reply(hang); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an open connection gets %v, want a reset", err)
	}
	p.Accept(t)
	p.Accept(t)
	dial(t, p.Addr).wantReply(t, "PING", "+PONG")
}

func TestConnectionEndsAfterSomeRequests(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	p := redistest.Proxy(t, s.Addr)
	p.CloseAfterRequests(2)
	w := dial(t, p.Addr)
	w.wantReply(t, "INCR n", ":1")
	w.wantReply(t, "INCR n", ":2")
	w.send(t, "INCR n")
	if got, err := w.reply(hang); err == nil {
		t.Errorf("the third request is answered %q, want that the connection ends", got)
	}
	wantCount(t, s, "2")
	together := dial(t, p.Addr)
	together.send(t, "INCR n", "INCR n", "INCR n")
	for _, want := range []string{":3", ":4", ":5"} {
		if got, err := together.reply(hang); got != want {
			t.Errorf("of three requests in one write, one is answered %q, %v, want %s", got, err, want)
		}
	}
	wantCount(t, s, "5")
}

func TestProxyResetsClientsOfADeadRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	p := redistest.Proxy(t, s.Addr)
	w := dial(t, p.Addr)
	w.wantReply(t, "PING", "+PONG")
	s.Kill()
	if _, err := w.reply(hang); err != io.EOF {
		t.Errorf("an open connection gets %v, want its end", err)
	}
	c, err := net.Dial("tcp", p.Addr)
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a new connection gets %v, want a reset", err)
	}
}

func TestTrapSpringsOnTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.WithTLS())
	p := redistest.Proxy(t, s.Addr)
	c := client(t, &redis.Options{Addr: p.Addr, TLSConfig: s.TLS.Client(), PoolSize: 1})
	must(t, c.Ping(ctx).Err())
	sprung := p.Trap("", redistest.ResetAfter)
	if err := c.Incr(ctx, "n").Err(); err == nil {
		t.Error("a request through a reset connection is answered")
	}
	await(t, "the trap springs", sprung)
	wantCount(t, s, "1")
}
