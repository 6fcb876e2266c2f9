package ratelimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/server/stats/ratelimit"
	"github.com/weirproxy/weir/server/stats/statsd"
)

// sink is a statsd: it adds up the counters that it is sent, as name, and tags after a #.
type sink struct {
	network, address string

	mu       sync.Mutex
	counters map[string]float64
	gauges   map[string]float64
	timings  map[string]float64 // how many, by their rates
}

func newSink(t *testing.T, network string) *sink {
	t.Helper()
	s := &sink{network: network, counters: make(map[string]float64), gauges: make(map[string]float64), timings: make(map[string]float64)}
	if network == "udp" {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.address = conn.LocalAddr().String()
		t.Cleanup(func() { conn.Close() })
		go s.datagrams(t, conn)
		return s
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.stream(t, iotest.OneByteReader(conn)) // however TCP cuts it up
		}
	}()
	return s
}

func (s *sink) stream(t *testing.T, from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		s.take(t, lines.Text())
	}
}

func (s *sink) datagrams(t *testing.T, conn net.PacketConn) {
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		if n > 1432 && strings.Count(string(buffer[:n]), "\n") > 1 {
			t.Errorf("a datagram of %d bytes is cut up on its way, and lost with any part", n)
		}
		for line := range strings.Lines(string(buffer[:n])) {
			s.take(t, strings.TrimSuffix(line, "\n"))
		}
	}
}

// take reads a line: name:value|kind, then |@rate, then |#tags.
func (s *sink) take(t *testing.T, line string) {
	name, rest, _ := strings.Cut(line, ":")
	rest, tags, _ := strings.Cut(rest, "|#")
	parts := strings.Split(rest, "|")
	value, err := strconv.ParseFloat(parts[0], 64)
	if err != nil || len(parts) < 2 || len(parts) > 3 {
		t.Errorf("this is no line of statsd's: %q", line)
		return
	}
	rate := 1.0
	if len(parts) == 3 {
		if rate, err = strconv.ParseFloat(strings.TrimPrefix(parts[2], "@"), 64); err != nil || rate <= 0 || rate >= 1 {
			t.Errorf("this has no rate: %q", line)
		}
	}
	if tags != "" {
		name += "#" + tags
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch parts[1] {
	case "c":
		if s.counters[name] += value; value <= 0 {
			t.Errorf("a counter is sent that has not been counted up: %q", line)
		}
	case "g":
		s.gauges[name] = value
	case "ms":
		if s.timings[name] += 1 / rate; value != 1.5 {
			t.Errorf("%q; all answers took 1.5 ms", line)
		}
	default:
		t.Errorf("this is of no kind: %q", line)
	}
}

// total returns what is counted for a name.
func (s *sink) total(name string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counters[name]
}

// times returns how many times there were of a name.
func (s *sink) times(name string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timings[name]
}

func (s *sink) config(w *world, form statsd.Form) statsd.Config {
	return statsd.Config{Network: s.network, Address: s.address, Interval: 20 * time.Millisecond, Form: form,
		Statistics: w.statistics, Log: slog.New(slog.DiscardHandler)}
}

// Several sinks read the same statistics, while requests are counted and rules reloaded: each gets every hit once.
func TestStatsdGetsEveryHitOnce(t *testing.T) {
	w := newWorld(t, true)
	tcp, udp, dog := newSink(t, "tcp"), newSink(t, "udp"), newSink(t, "udp")
	tags := map[string]string{"zone": "b", "env": "a.b:c", "empty": ""}
	mogrifier, err := statsd.NewMogrifier(`^ratelimit\.service\.rate_limit\.([^.]+)\.(.*)\.([^.]+)$`, "rl.$3",
		map[string]string{"domain": "$1", "descriptor": "$2"})
	if err != nil {
		t.Fatal(err)
	}
	never, err := statsd.NewMogrifier(`^ratelimit\.`, "never.$0", nil) // the first that matches wins
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var senders []*statsd.Sender
	for _, c := range []statsd.Config{
		tcp.config(w, statsd.Plain(tags)), udp.config(w, statsd.Plain(nil)),
		dog.config(w, statsd.Tagged([]string{"env:prod"}, []statsd.Mogrifier{mogrifier, never})),
	} {
		sender := statsd.New(c)
		senders = append(senders, sender)
		running.Go(func() { sender.Run(ctx) })
	}
	// What all of it makes has room in a socket's buffer, so that no datagram is lost however late it is read.
	const requests, timed = 2_000, 100 // run calls a quarter as often
	asked := w.run(t, requests, func(i int) {
		if i%50 == 0 {
			w.load(t, []string{rules, moreRules}[i/50%2])
		}
		if i%(requests/4/timed) == 0 {
			for _, s := range senders {
				s.Took(1500 * time.Microsecond)
			}
		}
	})
	cancel()
	running.Wait() // the last are on their way
	missing := func() (missing []string) {
		check := func(name string, got, want float64) {
			if math.Round(got) != want {
				missing = append(missing, fmt.Sprintf("%s: %v of %v", name, got, want))
			}
		}
		for name, hits := range asked {
			descriptor := strings.TrimSuffix(strings.TrimPrefix(name, "ratelimit.service.rate_limit.default/eg/http."), ".total_hits")
			check("tcp "+name, tcp.total(name+".__env=a_b_c.__zone=b"), float64(hits))
			check("udp "+name, udp.total(name), float64(hits))
			check("dog "+name, dog.total("rl.total_hits#env:prod,descriptor:"+descriptor+",domain:default/eg/http"), float64(hits))
		}
		check("requests", tcp.total("ratelimit_server.ShouldRateLimit.total_requests.__env=a_b_c.__zone=b"), requests)
		check("tcp times", tcp.times(ratelimit.ResponseTime+".__env=a_b_c.__zone=b"), timed)
		check("udp times", udp.times(ratelimit.ResponseTime), timed)
		check("dog times", dog.times(ratelimit.ResponseTime+"#env:prod"), timed)
		return missing
	}
	for deadline := time.Now().Add(process.Hang); len(missing()) > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	for _, what := range missing() {
		t.Errorf("%s that was counted came; each is to come once", what)
	}
	dog.mu.Lock()
	defer dog.mu.Unlock()
	if want := map[string]float64{"never.ratelimit.#env:prod": 7}; !maps.Equal(dog.gauges, want) {
		t.Errorf("gauges %v, want %v", dog.gauges, want)
	}
}
