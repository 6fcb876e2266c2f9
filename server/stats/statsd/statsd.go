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
	patience  = time.Second // for a connection to open, and for a write
	lastFlush = 2 * time.Second
	maxPacket = 1432 // bytes of a datagram, so that an Ethernet does not cut it up
	maxWrite  = 64 << 10
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

// Sender sends statistics. A counter goes out as what has been added since it was last sent, so that nothing is lost, and
// nothing piles up, while nobody listens. Response times go out as a sample of each interval, with its rate.
type Sender struct {
	config Config
	times  times
	silent bool // it was said that nobody listens

	conn  net.Conn
	lines map[string]*line // by the name of a statistic
	flush uint64
	due   []due // of the present flush
	text  []byte
	ends  []int // in text, of what is due, as far as it is there
}

// line is how a statistic is sent.
type line struct {
	begin, end string // what stands before the value and after its kind
	sent       uint64 // of a counter
	flush      uint64 // the latest that found it
}

// due is a statistic that is to be sent.
type due struct {
	line  *line
	kind  ratelimit.Kind
	value uint64
}

// New makes a sender. It sends only while it runs.
func New(c Config) *Sender { return &Sender{config: c, lines: make(map[string]*line)} }

// Took notes how long answering a request took. It may be called by any number of goroutines.
func (s *Sender) Took(took time.Duration) { s.times.add(took) }

// Run sends at each interval until ctx ends, and a last time then.
func (s *Sender) Run(ctx context.Context) {
	tick := time.NewTicker(s.config.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.send(context.WithoutCancel(ctx))
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
			defer cancel()
			s.send(last)
			s.hangUp()
			return
		}
	}
}

// send sends what is due. What does not reach the other side is due again; response times are not kept.
func (s *Sender) send(ctx context.Context) {
	times, rate := s.times.take()
	if err := s.connect(ctx); err != nil {
		s.missed(err)
		return
	}
	s.collect()
	err := s.sendDue(ctx)
	if err != nil && s.tcp() { // the other side may have hung up since the last time
		if err = s.connect(ctx); err == nil {
			err = s.sendDue(ctx)
		}
	}
	if err == nil {
		err = s.sendTimes(ctx, times, rate)
	}
	if !s.tcp() {
		s.hangUp() // a name may lead elsewhere the next time
	}
	if err != nil {
		s.missed(err)
	} else if s.silent {
		s.silent = false
		s.config.Log.Info("statsd listens again", "address", s.config.Address)
	}
}

// missed says once that nobody listens: where statsd is the default, nobody may be meant to.
func (s *Sender) missed(err error) {
	if !s.silent {
		s.silent = true
		s.config.Log.Info("statsd does not listen: what is counted is sent as soon as it does", "network", s.config.Network,
			"address", s.config.Address, "error", err)
	}
}

func (s *Sender) tcp() bool { return strings.HasPrefix(s.config.Network, "tcp") }

// connect opens the connection, if there is none.
func (s *Sender) connect(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.DialContext(ctx, s.config.Network, s.config.Address)
	if err != nil {
		return err
	}
	s.conn = conn
	if s.tcp() {
		go func() { // nothing comes from there but the end, after which a first write would seem to succeed
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
	}
	return nil
}

func (s *Sender) hangUp() {
	if s.conn != nil {
		_ = s.conn.Close() // what was written is on its way
		s.conn = nil
	}
}

// collect finds out what is due.
func (s *Sender) collect() {
	s.flush++
	s.due = s.due[:0]
	s.config.Statistics.Each(func(name string, kind ratelimit.Kind, value uint64) {
		l := s.lines[name]
		if l == nil {
			l = new(line)
			l.begin, l.end = s.config.Form(name)
			s.lines[name] = l
		}
		l.flush = s.flush
		if kind == ratelimit.Gauge || value != l.sent {
			s.due = append(s.due, due{l, kind, value})
		}
	})
	for name, l := range s.lines {
		if l.flush != s.flush {
			delete(s.lines, name)
		}
	}
}

// sendDue sends what is due, and leaves what it has not sent.
func (s *Sender) sendDue(ctx context.Context) error {
	for len(s.due) > 0 {
		s.fill()
		written, err := s.write(ctx)
		n := 0
		for n < len(s.ends) && s.ends[n] <= written {
			if d := &s.due[n]; d.kind == ratelimit.Counter {
				d.line.sent = d.value
			}
			n++
		}
		s.due = s.due[n:]
		if err != nil {
			return err
		}
	}
	return nil
}

// fill writes the first of what is due into text, as much as goes out at once.
func (s *Sender) fill() {
	s.text, s.ends = s.text[:0], s.ends[:0]
	for i := range s.due {
		d := &s.due[i]
		begin := len(s.text)
		s.text = append(append(s.text, d.line.begin...), ':')
		if d.kind == ratelimit.Gauge {
			s.text = append(strconv.AppendUint(s.text, d.value, 10), "|g"...)
		} else {
			s.text = append(strconv.AppendUint(s.text, d.value-d.line.sent, 10), "|c"...)
		}
		s.text = append(append(s.text, d.line.end...), '\n')
		if i > 0 && len(s.text) > s.room() {
			s.text = s.text[:begin]
			return
		}
		s.ends = append(s.ends, len(s.text))
	}
}

func (s *Sender) room() int {
	if s.tcp() {
		return maxWrite
	}
	return maxPacket
}

// write writes the text, and returns how much of it has gone out. After an error the connection is closed.
func (s *Sender) write(ctx context.Context) (int, error) {
	deadline := time.Now().Add(patience)
	if ends, has := ctx.Deadline(); has && ends.Before(deadline) {
		deadline = ends
	}
	err := s.conn.SetWriteDeadline(deadline)
	written := 0
	if err == nil {
		written, err = s.conn.Write(s.text)
	}
	if err != nil {
		s.hangUp()
	}
	return written, err
}

// sendTimes sends response times, each of which stands for as many as the rate says.
func (s *Sender) sendTimes(ctx context.Context, times []time.Duration, rate float64) error {
	begin, end := s.config.Form(ratelimit.ResponseTime)
	for len(times) > 0 {
		s.text = s.text[:0]
		for len(times) > 0 && len(s.text) < s.room()-len(begin)-len(end)-40 {
			ms := strconv.FormatFloat(float64(times[0])/float64(time.Millisecond), 'f', -1, 64)
			s.text = append(append(append(append(s.text, begin...), ':'), ms...), "|ms"...)
			if rate < 1 {
				s.text = strconv.AppendFloat(append(s.text, "|@"...), rate, 'g', 6, 64)
			}
			s.text = append(append(s.text, end...), '\n')
			times = times[1:]
		}
		if _, err := s.write(ctx); err != nil {
			return err
		}
	}
	return nil
}
