package topology

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// list writes texts as a sentinel does.
func list(texts ...string) string {
	out := fmt.Sprintf("*%d\r\n", len(texts))
	for _, text := range texts {
		out += fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return out
}

func TestUnexpectedSentinelRepliesAreNotRead(t *testing.T) {
	other := func(i int) string { return list("ip", fmt.Sprint("10.0.0.", i), "port", "26379", "flags", "sentinel") }
	var most strings.Builder
	for i := range maxSentinels {
		most.WriteString(other(i))
	}
	hello := list("server", "redis", "id") + ":1\r\n*0\r\n"
	joined := "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"
	moved := list("message", "+switch-master", "weir 10.0.0.1 1 10.0.0.2 2")
	for name, test := range map[string]struct{ asked, says, read string }{
		"a greeting":                 {"hello", hello, hello},
		"no greeting":                {"hello", "-ERR no\r\n", "-ERR no\r\n"},
		"an error within a greeting": {"hello", "*2\r\n-ERR no\r\n*0\r\n", ""},
		"a nil within a greeting":    {"hello", "*2\r\n$-1\r\n*0\r\n", ""},
		"a map":                      {"hello", "%1\r\n+a\r\n+b\r\n", ""},
		"the primary":                {getPrimary, list("10.0.0.1", "1"), list("10.0.0.1", "1")},
		"no primary":                 {getPrimary, "*-1\r\n", "*-1\r\n"},
		"half a primary":             {getPrimary, list("10.0.0.1"), ""},
		"an empty primary":           {getPrimary, "*0\r\n", ""},
		"no others":                  {getSentinels, "*0\r\n", "*0\r\n"},
		"as many others as may be": {getSentinels, fmt.Sprintf("*%d\r\n%s", maxSentinels, most.String()),
			fmt.Sprintf("*%d\r\n%s", maxSentinels, most.String())},
		"too many others": {getSentinels, fmt.Sprintf("*%d\r\n%s%s", maxSentinels+1, most.String(), other(-1)), ""},
		"messages":        {subscribe, joined + list("pong", "") + moved, joined + list("pong", "") + moved},
		"half a message":  {subscribe, joined + list("message", "+switch-master", "weir") + moved, joined + moved},
		"no message":      {subscribe, "*0\r\n*1\r\n:1\r\n" + moved, moved},
	} {
		log := new(process.Output)
		conn := &sentinelConn{
			Conn: failedConn{}, sentinels: newSentinels(Config{Log: slog.New(slog.NewTextHandler(log, nil))}),
			reader: bufio.NewReader(strings.NewReader(test.says)),
		}
		_, _ = conn.Write([]byte(list("sentinel", test.asked, "weir")))
		read, err := io.ReadAll(conn)
		if string(read) != test.read {
			t.Errorf("%s: go-redis reads %.200q, want %.200q", name, read, test.read)
		}
		refused := test.says != test.read
		if refused != (log.String() != "") || refused && test.read == "" && !errors.Is(err, errSentinel) {
			t.Errorf("%s: %v, logged %q", name, err, log)
		}
	}
}

// go-redis keeps what it has read beyond a reply for the next command.
func TestSentinelReplyBeforeItsQuestionIsRefused(t *testing.T) {
	conn := &sentinelConn{
		Conn: failedConn{}, sentinels: newSentinels(Config{Log: slog.New(slog.DiscardHandler)}),
		reader: bufio.NewReader(strings.NewReader("+OK\r\n" + list("10.0.0.1"))),
	}
	buffer := make([]byte, 4096)
	if n, err := conn.Read(buffer); err != nil || string(buffer[:n]) != "+OK\r\n" {
		t.Fatalf("%q, %v; want the first reply alone", buffer[:n], err)
	}
	_, _ = conn.Write([]byte(list("sentinel", getPrimary, "weir")))
	if n, err := conn.Read(buffer); !errors.Is(err, errSentinel) {
		t.Errorf("%q, %v; want half a primary refused", buffer[:n], err)
	}
}

func TestIncompletePrimaryAddressIsReported(t *testing.T) {
	s := redistest.NewStub(t, func(int, []string) string { return list("10.0.0.1") })
	on, log := openTopology(t, Config{Type: Sentinel, URL: "weir," + s.Addr})
	client, _ := on.Owner(nil)
	if err := client.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), errSentinel.Error()) {
		t.Errorf("%v, want %v", err, errSentinel)
	}
	for _, want := range []string{s.Addr, "an address and a port", "failure policies decide", "remedy="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

func TestOversizedClusterMapIsRefused(t *testing.T) {
	slots := fmt.Sprintf("*%d\r\n", maxNodes+1)
	for i := range maxNodes + 1 {
		slots += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", i, i, i+1)
	}
	s := redistest.NewStub(t, redistest.Answers(nil))
	s.Slots = slots
	on, log := openTopology(t, Config{Type: Cluster, URL: s.Addr})
	for range 2 {
		if _, err := on.Servers(t.Context()); err == nil || !strings.Contains(err.Error(), "names 1001 nodes") {
			t.Errorf("%v, want the map refused", err)
		}
	}
	if n := strings.Count(log.String(), "unusable slot map of a cluster"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, log)
	}
}

// Replicas lack what the primary counted last.
func TestChangeOfPrimaryIsALoss(t *testing.T) {
	losses := new(atomic.Uint64)
	reached := countChanges(losses)
	for want, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.1:6379"} {
		reached(addr)
		reached(addr)
		if n := losses.Load(); n != uint64(want) {
			t.Errorf("%d losses when the primary is %s, want %d", n, addr, want)
		}
	}
}

func TestServersCannotNameSocketPaths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, _ := Config{URL: "redis:1"}.withDefaults()
	o, err := newOptions(c, new(atomic.Uint64))
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := o.cluster([]target{{network: "tcp", addr: "redis:1"}}).Dialer(t.Context(), "unix", path); err == nil {
		t.Errorf("a cluster's node is reached at %s", conn.RemoteAddr())
	}
	if conn, err := o.failover("weir", []string{"redis:1"}, "", "").Dialer(t.Context(), "unix", path); err == nil {
		t.Errorf("a sentinel is reached at %s", conn.RemoteAddr())
	}
}
