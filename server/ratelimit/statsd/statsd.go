// Package statsd sends envoyproxy/ratelimit's statistics to statsd, in that program's form, or to DogStatsD.
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
	flushTimeout = 2 * time.Second // for a connection to open, and all writes
	maxPacket    = 1432            // bytes of a datagram, so that an Ethernet does not cut it up
)

// Config says what is sent, where to and how.
type Config struct {
	Network    string // tcp or udp
	Address    string // host:port
	Interval   time.Duration
	Form       Form
	Statistics *ratelimit.Statistics
	Log        *slog.Logger
}

// Sender sends statistics, over a connection of its own each time. A counter goes out as what has been added since all was
// last sent, so that nothing is lost, and nothing piles up, while nobody listens; what went out over a connection that
// breaks then is sent again. Of response times the first of each interval go out, with their rate.
type Sender struct {
	config Config
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	times  [ratelimit.Methods]times
	sent   map[string]uint64 // of each counter, by the name of the statistic
}

// New makes a sender. It sends only while it runs.
func New(c Config) *Sender {
	s := &Sender{config: c, dial: new(net.Dialer).DialContext}
	for method := range s.times {
		s.times[method].first = make(chan time.Duration, maxTimes)
	}
	return s
}

// Took notes how long answering a call took. It may be called by any number of goroutines.
func (s *Sender) Took(method ratelimit.Method, took time.Duration) { s.times[method].add(took) }

// Run sends at each interval until ctx ends, and a last time then.
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

// flush sends what is due. That it fails is worth no more than a debug line: where statsd is the default, nobody may be
// meant to listen.
func (s *Sender) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := s.send(ctx); err != nil {
		s.config.Log.Debug("statsd does not listen: what is counted is sent as soon as it does", "network", s.config.Network,
			"address", s.config.Address, "error", err)
	}
}

// send sends what is due. Counters are due again unless all goes out; response times are not kept.
func (s *Sender) send(ctx context.Context) error {
	timers := s.timers()
	conn, err := s.dial(ctx, s.config.Network, s.config.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if ends, has := ctx.Deadline(); has {
		if err := conn.SetWriteDeadline(ends); err != nil {
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

// due returns the lines of gauges, and of counters that have grown, and what will have been sent of each counter then.
func (s *Sender) due() (lines []string, totals map[string]uint64) {
	totals = make(map[string]uint64, len(s.sent))
	s.config.Statistics.Each(func(name string, value uint64, isGauge bool) {
		if isGauge {
			lines = append(lines, s.format(name, value, "g"))
			return
		}
		totals[name] = value
		if value != s.sent[name] {
			lines = append(lines, s.format(name, value-s.sent[name], "c"))
		}
	})
	return lines, totals
}

// timers returns the lines of response times, and forgets these; their rate says how many each stands for.
func (s *Sender) timers() (lines []string) {
	for method := range ratelimit.Method(ratelimit.Methods) {
		times, rate := s.times[method].take()
		begin, end := s.config.Form(method.ResponseTime())
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

func (s *Sender) format(name string, value uint64, kind string) string {
	begin, end := s.config.Form(name)
	return begin + ":" + strconv.FormatUint(value, 10) + "|" + kind + end + "\n"
}

// write writes lines, as many at once as a datagram holds.
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

// maxTimes is how many response times are sent of one interval: enough for quantiles, and 5 KB a second at most.
const maxTimes = 1000

// times holds the first response times of an interval. Adding one neither waits nor allocates.
type times struct {
	seen  atomic.Uint64
	first chan time.Duration // maxTimes
}

func (t *times) add(took time.Duration) {
	t.seen.Add(1)
	select {
	case t.first <- took:
	default:
	}
}

// take returns the first times, and which share of all they are, and begins another interval. A time that is just being
// added may be in the next.
func (t *times) take() (first []time.Duration, rate float64) {
	seen := t.seen.Swap(0)
	for range len(t.first) {
		first = append(first, <-t.first)
	}
	return first, float64(len(first)) / float64(max(1, int(seen), len(first)))
}
