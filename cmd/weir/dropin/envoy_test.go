package dropin_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// envoy is a running Envoy with a filter for limits before an upstream of its own, which answers 200.
type envoy struct {
	addr  string // of its listener
	admin string // URL
}

// startEnvoy runs Envoy with a template of testdata, which is given its ports beside the data.
func startEnvoy(t *testing.T, file string, data map[string]any) *envoy {
	t.Helper()
	bootstrap, err := template.ParseGlob(filepath.Join("testdata", "*.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	port, upstream := process.Port(t), process.Port(t)
	values := map[string]any{"Port": port, "UpstreamPort": upstream}
	for name, value := range data {
		values[name] = value
	}
	var text bytes.Buffer
	if err := bootstrap.ExecuteTemplate(&text, file, values); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, address := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin-address")
	if err := os.WriteFile(config, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	p := process.Start(t, "envoy", nil, envoyBinary, "-c", config, "--admin-address-path", address, "--concurrency", "1",
		"--disable-hot-restart", "--log-level", "warning")
	e := &envoy{addr: fmt.Sprint("127.0.0.1:", port)}
	p.AwaitReady(t, func() error {
		admin, err := os.ReadFile(address)
		if err != nil {
			return err
		}
		e.admin = "http://" + string(admin)
		return wantStatus(e.admin+"/ready", 200)
	})
	return e
}

// stat reads a counter of Envoy's own about limits, which it keeps by the cluster that requests go to.
func (e *envoy) stat(t *testing.T, name string) int {
	t.Helper()
	var stats struct {
		Stats []struct {
			Name  string
			Value int
		}
	}
	text, err := get(e.admin + "/stats?format=json&type=Counters&filter=ratelimit")
	if err == nil {
		err = json.Unmarshal([]byte(text), &stats)
	}
	if err != nil {
		t.Fatalf("reading Envoy's counters: %v", err)
	}
	for _, s := range stats.Stats {
		if s.Name == "cluster.upstream.ratelimit."+name {
			return s.Value
		}
	}
	return 0 // Envoy has no counter that was never raised
}

// answer is what a caller of Envoy sees.
type answer struct {
	status int
	limit  string // x-ratelimit-limit
}

// caller is one connection to Envoy, by HTTP/1.1. It costs its process so little that the load is on the others.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
}

func (e *envoy) dial() (*caller, error) {
	conn, err := net.Dial("tcp", e.addr)
	if err != nil {
		return nil, err
	}
	return &caller{conn: conn, in: bufio.NewReader(conn)}, nil
}

// get sends a request, and reads its answer.
func (c *caller) get(path string) (a answer, err error) {
	if _, err := io.WriteString(c.conn, "GET "+path+" HTTP/1.1\r\nHost: www.example.com\r\n\r\n"); err != nil {
		return a, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	_, status, _ := bytes.Cut(line, []byte(" "))
	if a.status, err = strconv.Atoi(string(status[:min(3, len(status))])); err != nil {
		return a, fmt.Errorf("%q: %w", line, err)
	}
	length := 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return a, err
		}
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		switch string(name) {
		case "content-length":
			if length, err = strconv.Atoi(string(value)); err != nil {
				return a, err
			}
		case "x-ratelimit-limit":
			a.limit = string(value)
		case "":
			_, err := c.in.Discard(length)
			return a, err
		}
	}
}

// get sends one request through Envoy.
func (e *envoy) get(t *testing.T, path string) answer {
	t.Helper()
	c, err := e.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	a, err := c.get(path)
	if err != nil {
		t.Fatalf("GET %s through Envoy: %v", path, err)
	}
	return a
}

// wantStatuses sends requests one after the other, and complains unless they are answered so.
func (e *envoy) wantStatuses(t *testing.T, promise, path string, want ...int) {
	t.Helper()
	var got []int
	for range want {
		got = append(got, e.get(t, path).status)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: Envoy answers %v, want %v", promise, got, want)
	}
}

// load asks Envoy from several connections, each as fast as it is answered, until it is stopped.
type load struct {
	asked   atomic.Int64
	leave   atomic.Bool
	workers sync.WaitGroup

	mu      sync.Mutex
	answers map[answer]int
	failed  []error
}

// startLoad asks for a path over so many connections.
func (e *envoy) startLoad(t *testing.T, connections int, path string) *load {
	t.Helper()
	l := &load{answers: make(map[answer]int)}
	for range connections {
		c, err := e.dial()
		if err != nil {
			t.Fatal(err)
		}
		l.workers.Go(func() {
			defer c.conn.Close()
			l.run(c, path)
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) run(c *caller, path string) {
	answers := make(map[answer]int)
	var failed error
	for failed == nil && !l.leave.Load() {
		a, err := c.get(path)
		if failed = err; err == nil {
			answers[a]++
		}
		l.asked.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, n := range answers {
		l.answers[a] += n
	}
	if failed != nil && !errors.Is(failed, io.EOF) {
		l.failed = append(l.failed, failed)
	}
}

// reach waits until there were so many calls.
func (l *load) reach(t *testing.T, calls int64) {
	t.Helper()
	for last, since := int64(-1), time.Now(); ; time.Sleep(20 * time.Millisecond) {
		n := l.asked.Load()
		switch {
		case n >= calls:
			return
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) > hang:
			t.Fatalf("after %d calls there was none more within %v", n, hang)
		}
	}
}

func (l *load) stop() {
	l.leave.Store(true)
	l.workers.Wait()
}

// wantAllPassed stops the load, and complains unless each call came through Envoy to weir, was answered there and
// passed. It returns how many there were.
func (l *load) wantAllPassed(t *testing.T, promise string, e *envoy) int {
	t.Helper()
	l.stop()
	asked, byStatus := int(l.asked.Load()), make(map[int]int)
	for a, n := range l.answers {
		byStatus[a.status] += n
	}
	if byStatus[200] != asked || asked == 0 || len(l.failed) > 0 {
		t.Errorf("%s: of %d calls Envoy answered %v, want 200 for each; broken connections: %v", promise, asked, byStatus, l.failed)
	}
	if ok, bad, open := e.stat(t, "ok"), e.stat(t, "error"), e.stat(t, "failure_mode_allowed"); ok < asked || bad != 0 || open != 0 {
		t.Errorf("%s: Envoy counts %d answers OK of weir for %d calls, %d errors and %d let through without an answer; want none of the last two",
			promise, ok, asked, bad, open)
	}
	return asked
}
