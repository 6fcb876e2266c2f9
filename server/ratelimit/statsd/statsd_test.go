package statsd

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/ratelimit"
)

// fakeStatistics are the counts that a test's statistics read.
type fakeStatistics struct {
	requests [limit.Results]uint64
	calls    uint64 // of each method
	loads    uint64
}

func (f *fakeStatistics) statistics() *ratelimit.Statistics {
	return &ratelimit.Statistics{Requests: func() [limit.Results]uint64 { return f.requests },
		Calls:       func(ratelimit.Method) uint64 { return f.calls },
		ConfigLoads: func() (applied, rejected uint64) { return f.loads, 0 }}
}

// sender returns a Sender with an interval of a second. The caller must set dial.
func sender(format Format, statistics *ratelimit.Statistics) *Sender {
	return New(Config{Interval: time.Second, Format: format, Statistics: statistics, Log: slog.New(slog.DiscardHandler)})
}

// addCounters parses lines, and adds their counters to sums. It skips a line that is cut off.
func addCounters(t *testing.T, sums map[string]uint64, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSuffix(value, "|c\n"), 10, 64)
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		sums[name] += n
	}
}

// sink is a connection that accepts a number of bytes, and then fails.
type sink struct {
	net.Conn
	room int
	sent []string // by each write
}

func (c *sink) Write(p []byte) (int, error) {
	n := min(len(p), c.room)
	c.room -= n
	c.sent = append(c.sent, string(p[:n]))
	if n < len(p) {
		return n, errors.New("the connection broke")
	}
	return n, nil
}

func (c *sink) SetWriteDeadline(time.Time) error { return nil }
func (c *sink) Close() error                     { return nil }

// sendInto makes the sender send to a sink with room for a number of bytes.
func (s *Sender) sendInto(room int) *sink {
	conn := &sink{room: room}
	s.dial = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	return conn
}

const plenty = 1 << 20

// After a failed dial, or a connection that breaks anywhere, even within a line, the sender sends all due statistics again,
// once. No datagram is fragmented.
func TestBrokenConnectionLosesNoStatistics(t *testing.T) {
	c, form := &fakeStatistics{loads: 1, calls: 7}, PlainFormat(map[string]string{"long": strings.Repeat("x", 400)})
	for o := range c.requests {
		c.requests[o] = 7
	}
	whole, sums := sender(form, c.statistics()), make(map[string]uint64)
	all := whole.sendInto(plenty)
	whole.flush(t.Context())
	for _, packet := range all.sent {
		if len(packet) > maxPacket || !strings.HasSuffix(packet, "\n") {
			t.Errorf("a datagram of %d bytes ends in %q; want whole lines, and no more than networks let pass", len(packet), packet[len(packet)-9:])
		}
	}
	text := strings.Join(all.sent, "")
	if addCounters(t, sums, text); len(all.sent) < 2 || len(sums) != 6 {
		t.Errorf("%d statistics came in %d datagrams; want all 6, in several", len(sums), len(all.sent))
	}
	for room := range len(text) {
		s := sender(form, c.statistics())
		s.dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody listens") }
		s.flush(t.Context())
		s.sendInto(room)
		s.flush(t.Context())
		conn, again := s.sendInto(plenty), make(map[string]uint64)
		s.flush(t.Context())
		s.flush(t.Context())
		if addCounters(t, again, strings.Join(conn.sent, "")); !maps.Equal(again, sums) {
			t.Errorf("after a connection that broke behind %d bytes %v came, want all of %v", room, again, sums)
		}
	}
}

// A server that accepts and never reads must not block the sender longer than its timeout.
func TestReaderThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeStatistics{loads: 1}
		s := sender(PlainFormat(nil), c.statistics())
		conn, _ := net.Pipe()
		s.dial = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
		begin := time.Now()
		s.flush(t.Context())
		due, _ := s.due()
		if took := time.Since(begin); took != flushTimeout || len(due) != 1 {
			t.Errorf("given up after %v, and %d statistics are due again; want %v and 1", took, len(due), flushTimeout)
		}
	})
}

func TestLinesHaveTheFormOfTheSink(t *testing.T) {
	mogrifier, err := NewMogrifier(`^ratelimit\.service\.(.*)$`, "rl", map[string]string{"of": "$1"})
	if err != nil {
		t.Fatal(err)
	}
	never, err := NewMogrifier(`^ratelimit\.`, "never.$0", nil) // the first that matches wins
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		network string
		form    Format
		want    string
	}{
		{"tcp", PlainFormat(map[string]string{"zone": "b", "env": "a.b:c", "empty": ""}), `ratelimit.service.config_load_success.__env=a_b_c.__zone=b:3|c
ratelimit_server.ShouldRateLimit.total_requests.__env=a_b_c.__zone=b:2|c
ratelimit_server.Check.total_requests.__env=a_b_c.__zone=b:2|c
ratelimit_server.Check.response_time.__env=a_b_c.__zone=b:0.001|ms
ratelimit.cache.__env=a_b_c.__zone=b:7|g
ratelimit_server.ShouldRateLimit.response_time.__env=a_b_c.__zone=b:1.5|ms
`},
		{"udp", DogStatsDFormat([]string{"env:prod"}, []Mogrifier{mogrifier, never}), `rl:3|c|#env:prod,of:config_load_success
ratelimit_server.ShouldRateLimit.total_requests:2|c|#env:prod
ratelimit_server.Check.total_requests:2|c|#env:prod
ratelimit_server.Check.response_time:0.001|ms|#env:prod
never.ratelimit.:7|g|#env:prod
ratelimit_server.ShouldRateLimit.response_time:1.5|ms|#env:prod
`},
	} {
		c := &fakeStatistics{loads: 3}
		c.calls = 2
		statistics := c.statistics()
		statistics.Gauges = map[string]func() uint64{"ratelimit.cache": func() uint64 { return 7 }}
		s := sender(tc.form, statistics)
		conn := s.sendInto(plenty)
		s.Observe(ratelimit.ShouldRateLimit, 1500*time.Microsecond)
		s.Observe(ratelimit.Check, time.Microsecond)
		s.flush(t.Context())
		got := slices.Sorted(strings.Lines(strings.Join(conn.sent, "")))
		if want := slices.Sorted(strings.Lines(tc.want)); !slices.Equal(got, want) {
			t.Errorf("by %s comes\n%s\nwant\n%s", tc.network, strings.Join(got, ""), strings.Join(want, ""))
		}
	}
}

func TestCountsAreSentPeriodicallyAndAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sums := make(map[string]uint64)
		var loads atomic.Uint64
		statistics := &ratelimit.Statistics{Requests: func() (none [limit.Results]uint64) { return none },
			Calls:       func(ratelimit.Method) uint64 { return 0 },
			ConfigLoads: func() (applied, rejected uint64) { return loads.Load(), 0 }}
		s := sender(PlainFormat(nil), statistics)
		conn := s.sendInto(plenty)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		time.Sleep(time.Second / 2)
		for range 3 {
			loads.Add(1)
			time.Sleep(time.Second)
		}
		loads.Add(1)
		end()
		<-ended
		addCounters(t, sums, strings.Join(conn.sent, ""))
		if got := sums["ratelimit.service.config_load_success"]; len(conn.sent) != 4 || got != 4 {
			t.Errorf("%d loads came in %d parts; want all 4, one a second and the last at the end", got, len(conn.sent))
		}
	})
}

func TestFirstTimesOfAnIntervalAreSampled(t *testing.T) {
	all := &New(Config{}).times[ratelimit.ShouldRateLimit]
	for round := range 3 {
		for i := range 10 * maxTimes {
			all.add(time.Duration(i))
		}
		if first, rate := all.drain(); len(first) != maxTimes || first[maxTimes-1] != maxTimes-1 || rate != 0.1 {
			t.Errorf("round %d: %d times at a rate of %v; want the first %d at 0.1", round, len(first), rate, maxTimes)
		}
	}
	if first, _ := all.drain(); len(first) != 0 {
		t.Errorf("%d times are there twice", len(first))
	}
	all.add(5)
	if first, rate := all.drain(); len(first) != 1 || first[0] != 5 || rate != 1 {
		t.Errorf("%v at %v, want the one time that there was", first, rate)
	}
	if n := testing.AllocsPerRun(1000, func() { all.add(time.Millisecond) }); n != 0 {
		t.Errorf("a time costs %v allocations, want none", n)
	}
}

func TestNewMogrifierRefusesBadPatterns(t *testing.T) {
	for _, tc := range []struct{ pattern, name, value, want string }{
		{"(", "a", "b", "pattern"}, {"a(b)", "$2", "b", "$2"}, {"a(b)", "$1", "x$3", "$3"}, {"a", "$99999999999999999999", "b", "$9"},
	} {
		if _, err := NewMogrifier(tc.pattern, tc.name, map[string]string{"k": tc.value}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v; want an error that names %s", tc, err, tc.want)
		}
	}
	m, err := NewMogrifier(`^a\.(.*)\.b$`, "$1x", map[string]string{"z": "1", "k": "$0,$1"})
	if err != nil {
		t.Fatal(err)
	}
	form := DogStatsDFormat(nil, []Mogrifier{m})
	for name, want := range map[string]string{"a.c.b": "cx |#k:a.c.b_c,z:1", "c": "c "} {
		if begin, end := form(name); begin+" "+end != want {
			t.Errorf("%s becomes %q %q, want %q", name, begin, end, want)
		}
	}
}
