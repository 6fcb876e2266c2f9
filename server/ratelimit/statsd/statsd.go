// Package statsd sends envoyproxy/ratelimit's statistics to statsd, in that program's format, or to DogStatsD.
package statsd

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/server/ratelimit"
)

const (
	flushTimeout = 2 * time.Second // to connect and write everything
	maxPacket    = 1432            // bytes of a datagram that Ethernet does not fragment
)

// Config has the statistics, the address and the format.
type Config struct {
	Network    string // tcp or udp
	Address    string // host:port
	Interval   time.Duration
	Format     Format
	Statistics *ratelimit.Statistics
	Log        *slog.Logger
}

// Sender sends statistics, each time over a new connection. For a counter it sends the increase since the last
// success, so that nothing is lost or queued while statsd is down. If the connection breaks while it sends, it sends
// the same increases again. It sends the first response times of each interval, with their sample rate.
type Sender struct {
	config Config
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	times  [ratelimit.Methods]times
	sent   map[string]uint64 // counters at the last success, by name
}

// New makes a sender. It sends only while it runs.
func New(c Config) *Sender {
	s := &Sender{config: c, dial: new(net.Dialer).DialContext}
	for method := range s.times {
		s.times[method].first = make(chan time.Duration, maxTimes)
	}
	return s
}

// Observe records how long answering a call took. It may be called by any number of goroutines.
func (s *Sender) Observe(method ratelimit.Method, took time.Duration) { s.times[method].add(took) }

// Run sends at each interval, and a last time when ctx ends.
func (s *Sender) Run(ctx context.Context) {
	tick := time.NewTicker(s.config.Interval)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		s.flush(context.WithoutCancel(ctx))
	}
}

// flush sends the due statistics. It logs a failure only as a debug line, because statsd may be on by default where none
// runs.
func (s *Sender) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := s.send(ctx); err != nil {
		s.config.Log.Debug("sending to statsd failed", "network", s.config.Network,
			"address", s.config.Address, "error", err)
	}
}

// send sends the due statistics. After a failure counters are due again, but response times are lost.
func (s *Sender) send(ctx context.Context) error {
	timers := s.timers()
	conn, err := s.dial(ctx, s.config.Network, s.config.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetWriteDeadline(deadline); err != nil {
			return err
		}
	}
	lines, totals := s.due()
	if err := write(conn, append(lines, timers...)); err != nil {
		return err
	}
	s.sent = totals
	return nil
}

// due returns the lines of gauges and of increased counters, and the counters' new values for sent.
func (s *Sender) due() (lines []string, totals map[string]uint64) {
	totals = make(map[string]uint64, len(s.sent))
	s.config.Statistics.Each(func(name string, value uint64, isGauge bool) {
		if isGauge {
			lines = append(lines, s.formatLine(name, value, "g"))
			return
		}
		totals[name] = value
		if value != s.sent[name] {
			lines = append(lines, s.formatLine(name, value-s.sent[name], "c"))
		}
	})
	return lines, totals
}

// timers returns the lines of the collected response times, with the share of all response times that they are.
func (s *Sender) timers() (lines []string) {
	for method := range ratelimit.Method(ratelimit.Methods) {
		times, rate := s.times[method].drain()
		begin, end := s.config.Format(method.ResponseTime())
		if rate < 1 {
			end = "|@" + strconv.FormatFloat(rate, 'g', 6, 64) + end
		}
		for _, took := range times {
			ms := strconv.FormatFloat(float64(took)/float64(time.Millisecond), 'f', -1, 64)
			lines = append(lines, begin+":"+ms+"|ms"+end+"\n")
		}
	}
	return lines
}

func (s *Sender) formatLine(name string, value uint64, kind string) string {
	begin, end := s.config.Format(name)
	return begin + ":" + strconv.FormatUint(value, 10) + "|" + kind + end + "\n"
}

// write writes lines. Each call of conn.Write gets as many as fit into a datagram.
func write(conn io.Writer, lines []string) error {
	for len(lines) > 0 {
		var packet strings.Builder
		n := 0
		for ; n < len(lines) && (n == 0 || packet.Len()+len(lines[n]) <= maxPacket); n++ {
			packet.WriteString(lines[n])
		}
		if _, err := io.WriteString(conn, packet.String()); err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

// maxTimes is how many response times of one interval are sent: enough for quantiles, and at most 5 KB a second.
const maxTimes = 1000

// times holds the first response times of an interval. Adding one neither blocks nor allocates.
type times struct {
	seen  atomic.Uint64
	first chan time.Duration // holds maxTimes
}

func (t *times) add(took time.Duration) {
	t.seen.Add(1)
	select {
	case t.first <- took:
	default:
	}
}

// drain returns the first times and their share of all times, and begins a new interval. A time that is added
// concurrently may count in the next interval.
func (t *times) drain() (first []time.Duration, rate float64) {
	seen := t.seen.Swap(0)
	for range len(t.first) {
		first = append(first, <-t.first)
	}
	return first, float64(len(first)) / float64(max(1, int(seen), len(first)))
}
