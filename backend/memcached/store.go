// Package memcached counts in memcached servers that all replicas of weir share. README.md says what that promises, and
// what it cannot.
//
// A key of weir's is one value, which is read, decided on and swapped if nobody changed it meanwhile; a key of
// envoyproxy/ratelimit is a number, counted by incr. The checks of a key that wait together go in one exchange.
package memcached

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/backend/throttle"
	"github.com/weirproxy/weir/descriptors"
)

// ErrUnavailable is wrapped by a decision's Err when its check got no answer.
var ErrUnavailable = errors.New("memcached is unavailable")

// Config says where the servers are, and how they are asked.
type Config struct {
	// Servers are host:port or paths of sockets, in the order in which envoyproxy/ratelimit has them.
	Servers []string
	// SRV, instead of Servers, is a DNS record that names them. It is looked up every Refresh, or once if that is 0.
	SRV     string
	Refresh time.Duration
	// Connections is the number of connections to each server for checks, at least 1. One more comes now and then.
	Connections int
	// Timeout bounds a check whose caller has a later deadline or none.
	Timeout time.Duration
	TLS     func() *tls.Config // of each connection; nil for none
	Keys    ratelimit.Keys
	Trace   outbound.Trace // nil for none
	Log     *slog.Logger   // nil is slog.Default()

	// For tests; the zero values are the right ones.
	now           func() time.Time
	skew          time.Duration // 0 is maxSkew, below 0 none
	statsInterval time.Duration // between reads of statistics
	lookup        func(ctx context.Context, record string) ([]string, error)
}

// Store is a [backend.Shared] in memcached.
type Store struct {
	config  Config
	servers atomic.Pointer[serverList]

	engine   *outbound.Engine[check]
	stop     context.CancelFunc
	running  sync.WaitGroup
	ready    context.Context // ends once a server has answered
	setReady context.CancelFunc

	lostRaces, evictions, restarts, ahead atomic.Uint64
	aheadLog                              throttle.Lines
}

// Stats are totals since Open.
type Stats struct {
	Exchanges   uint64 // with servers, of a read and a write at most
	Checks      uint64 // in them, those among them that were read again
	LostRaces   uint64 // values that another process changed between reading and writing
	Dropped     uint64 // checks that were not counted because their callers had left
	Unavailable uint64 // checks without an answer
	Evictions   uint64 // values that servers threw out to make room
	Restarts    uint64 // of servers, and flushes
	Ahead       uint64 // values that were written by a clock more than a second ahead
}

var _ backend.Shared = (*Store)(nil)

// Open makes a store. It does not wait for servers, and a server that does not answer is no error, see
// [backend.Health].
func Open(c Config) *Store {
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.now == nil {
		c.now = time.Now
	}
	if c.lookup == nil {
		c.lookup = lookup
	}
	c.skew, c.Connections = cmp.Or(c.skew, maxSkew), max(1, c.Connections)
	c.statsInterval = cmp.Or(c.statsInterval, statsInterval)
	s := &Store{config: c}
	s.ready, s.setReady = context.WithCancel(context.Background())
	s.engine = outbound.New(outbound.Config{
		ErrUnavailable: ErrUnavailable, Timeout: c.Timeout, MinExchange: minExchange, PingEvery: c.statsInterval,
		Trace: c.Trace}, s)
	s.servers.Store(new(serverList))
	var ctx context.Context
	if ctx, s.stop = context.WithCancel(context.Background()); c.SRV != "" {
		s.running.Go(func() { s.follow(ctx) })
	} else {
		s.use(c.Servers)
	}
	return s
}

// Close interrupts exchanges that are under way, and closes all connections. Checks that wait are not counted.
func (s *Store) Close() error {
	if !s.engine.Close() {
		return nil
	}
	s.stop()
	s.running.Wait()
	for _, srv := range *s.servers.Load() {
		srv.Close(srv.Unavailable(backend.Down, backend.ErrClosed))
	}
	s.engine.Wait()
	return nil
}

// Stats returns totals since Open.
func (s *Store) Stats() Stats {
	n := &s.engine.Totals
	return Stats{Exchanges: n.Batches.Load(), Checks: n.Checks.Load(), LostRaces: s.lostRaces.Load(), Dropped: n.Dropped.Load(),
		Unavailable: n.Unavailable.Load(), Evictions: s.evictions.Load(), Restarts: s.restarts.Load(), Ahead: s.ahead.Load()}
}

// Decide asks the servers that own the checks' keys. It returns 2 ms, or a tenth of its time, before ctx's deadline,
// and at the latest after the timeout. The Err of a check without an answer wraps ErrUnavailable.
func (s *Store) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := ratelimit.Validate(checks); err != nil {
		return err
	}
	return s.engine.Decide(ctx, checks, out)
}

// Encode copies a check, and finds the place of its key.
func (s *Store) Encode(text []byte, c *backend.Check, r *request) ([]byte, *outbound.Queue[check], error) {
	servers := *s.servers.Load()
	if len(servers) == 0 {
		return text, nil, &backend.UnavailableError{Reason: backend.Down, Err: errors.Join(ErrUnavailable, errNoServers)}
	}
	limits := append(r.State.Limits[:0], c.Limits...)
	r.State = check{Check: *c}
	r.State.Key, r.State.Limits = nil, limits
	var at place
	if stem, plain := descriptors.RatelimitKey(c.Key); plain {
		r.State.isNumber, r.State.window = true, s.config.Keys.Window(&limits[0], s.config.now())
		text, at = servers.placeRatelimit(text, stem, r.State.window)
	} else {
		text, at = servers.placeOwn(text, c.Key, "")
	}
	r.State.name = at.name
	return text, at.server.Queues[at.hash%uint64(len(at.server.Queues))], nil
}

// Decode returns the decision about a check.
func (s *Store) Decode(r *request, _ *backend.Check) (backend.Decision, error) {
	return r.State.decision, nil
}

// Reopen returns why nothing joins a queue: the store was closed, or the server is none any more.
func (s *Store) Reopen(closed *outbound.Queue[check]) (*outbound.Queue[check], error) {
	why := errRemoved
	if s.engine.Closed() {
		why = backend.ErrClosed
	}
	return nil, closed.Server.Unavailable(backend.Down, why)
}

// ReasonOf returns backend.Late, the reason of every other error.
func (s *Store) ReasonOf(error) backend.Reason { return backend.Late }
