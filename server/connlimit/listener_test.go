package connlimit

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// queue is a listener whose connections come from given addresses.
type queue chan net.Addr

type end struct {
	net.Conn
	from net.Addr
}

func (e end) RemoteAddr() net.Addr { return e.from }

func (q queue) Accept() (net.Conn, error) {
	from, open := <-q
	if !open {
		return nil, net.ErrClosed
	}
	conn, _ := net.Pipe()
	return end{conn, from}, nil
}

func (q queue) Close() error   { return nil }
func (q queue) Addr() net.Addr { return nil }

func from(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

func TestConnectionsBeyondTheLimitsAreRefused(t *testing.T) {
	var log bytes.Buffer
	q := make(queue, 20)
	l := New(q, "grpc", Limits{Total: 5, PerClient: 2}, slog.New(slog.NewTextHandler(&log, nil)))
	for _, a := range []net.Addr{
		from("10.0.0.1"), from("::ffff:10.0.0.1"), from("10.0.0.1"), // the third is refused
		from("2001:db8::1"), from("2001:db8::2:1"), from("2001:db8::3"), // one network
		&net.UnixAddr{Name: "/run/weir.sock"}, from("10.0.0.2"), // the fifth is there: refused
	} {
		q <- a
	}
	close(q)
	var open []net.Conn
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			break
		}
		open = append(open, conn)
	}
	if l.Open() != 5 || l.Refused(ReasonClient) != 2 || l.Refused(ReasonTotal) != 1 {
		t.Errorf("%d connections are open, %d refused by client and %d in all; want 5, 2 and 1", l.Open(), l.Refused(ReasonClient), l.Refused(ReasonTotal))
	}
	for _, want := range []string{"reason=max_connections_per_client", "client=10.0.0.1:1", "client=10.0.0.2:1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, &log)
		}
	}
	for _, conn := range open {
		conn.Close()
		conn.Close() // as servers do
	}
	if l.Open() != 0 || len(l.clients) != 0 {
		t.Errorf("after all were closed, twice, %d connections and %d clients are counted", l.Open(), len(l.clients))
	}
}

func TestOpenConnectionsAreServedBesideRefusedOnes(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	l := New(lis, "grpc", Limits{Total: 1}, slog.New(slog.DiscardHandler))
	accepted := make(chan net.Conn, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(process.Hang))
		return conn
	}
	good := dial()
	served := <-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil || errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a connection beyond the limit reads %v, want its end", err)
	}
	go func() { _, _ = served.Write([]byte("!")) }()
	if _, err := io.ReadFull(good, make([]byte, 1)); err != nil {
		t.Errorf("the connection that was open first is not served: %v", err)
	}
}

func TestSampledLogsOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var s LogSampler
		for range 3 {
			s.Log(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelWarn, "again")
			time.Sleep(sampleInterval * 2 / 3)
		}
		first, last, _ := strings.Cut(log.String(), "\n")
		if !strings.HasSuffix(first, "others_since=0") || !strings.HasSuffix(last, "others_since=1\n") ||
			strings.Count(last, "\n") != 1 {
			t.Errorf("of three lines those are logged:\n%s\nwant the first and the last, which tells of another", &log)
		}
	})
}
