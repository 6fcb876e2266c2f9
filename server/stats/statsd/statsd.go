// Package statsd sends envoyproxy/ratelimit's statistics to statsd, in that program's form, or to DogStatsD.
package statsd

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/server/stats/ratelimit"
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

// Sender sends statistics, over a connection of its own each time. A counter goes out as what has been added since it was
// last sent, so that nothing is lost, and nothing piles up, while nobody listens. Response times go out as a sample of each
// interval, with its rate.
type Sender struct {
	config   Config
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	times    times
	failed   bool               // the last attempt did
	counters map[string]*uint64 // what has been sent of each, by the name of the statistic
}

// line is one that is to be sent.
type line struct {
	text  string
	sent  *uint64 // becomes total when the line has gone out; nil unless it is of a counter
	total uint64
}

// New makes a sender. It sends only while it runs.
func New(c Config) *Sender { return &Sender{config: c, dial: new(net.Dialer).DialContext} }

// Took notes how long answering a request took. It may be called by any number of goroutines.
func (s *Sender) Took(took time.Duration) { s.times.add(took) }

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

// flush sends what is due, and logs once that nobody listens: where statsd is the default, nobody may be meant to.
func (s *Sender) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := s.send(ctx)
	switch failed := err != nil; {
	case failed == s.failed:
	case failed:
		s.config.Log.Info("statsd does not listen: what is counted is sent as soon as it does", "network", s.config.Network,
			"address", s.config.Address, "error", err)
	default:
		s.config.Log.Info("statsd listens again", "address", s.config.Address)
	}
	s.failed = err != nil
}

// send sends what is due. Counters that do not reach the other side are due again; response times are not kept.
func (s *Sender) send(ctx context.Context) error {
	times, rate := s.times.take()
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
	return write(conn, append(s.due(), s.timers(times, rate)...))
}

// due returns the lines of gauges, and of counters that have grown.
func (s *Sender) due() (all []line) {
	counters := make(map[string]*uint64, len(s.counters))
	s.config.Statistics.Each(func(name string, kind ratelimit.Kind, value uint64) {
		if kind == ratelimit.Gauge {
			all = append(all, line{text: s.format(name, value, "g")})
			return
		}
		sent := s.counters[name]
		if sent == nil {
			sent = new(uint64)
		}
		counters[name] = sent
		if value != *sent {
			all = append(all, line{s.format(name, value-*sent, "c"), sent, value})
		}
	})
	s.counters = counters
	return all
}

// timers returns the lines of response times; the rate says how many each stands for.
func (s *Sender) timers(times []time.Duration, rate float64) (all []line) {
	begin, end := s.config.Form(ratelimit.ResponseTime)
	if rate < 1 {
		end = "|@" + strconv.FormatFloat(rate, 'g', 6, 64) + end
	}
	for _, took := range times {
		ms := strconv.FormatFloat(float64(took)/float64(time.Millisecond), 'f', -1, 64)
		all = append(all, line{text: begin + ":" + ms + "|ms" + end + "\n"})
	}
	return all
}

func (s *Sender) format(name string, value uint64, kind string) string {
	begin, end := s.config.Form(name)
	return begin + ":" + strconv.FormatUint(value, 10) + "|" + kind + end + "\n"
}

// write writes lines, as many at once as a datagram holds. Each that has gone out whole is noted as sent.
func write(conn io.Writer, lines []line) error {
	for len(lines) > 0 {
		var packet strings.Builder
		n := 0
		for ; n < len(lines) && (n == 0 || packet.Len()+len(lines[n].text) <= maxPacket); n++ {
			packet.WriteString(lines[n].text)
		}
		written, err := io.WriteString(conn, packet.String())
		for _, l := range lines[:n] {
			if written -= len(l.text); written < 0 {
				break
			}
			if l.sent != nil {
				*l.sent = l.total
			}
		}
		if err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}
