// Package memcached counts in memcached servers that all replicas of weir share. README.md lists its promises and
// limits.
//
// A weir key is one value, which the store reads, changes and swaps by cas; a key of envoyproxy/ratelimit is a number,
// counted by incr. One exchange has all waiting checks of a key.
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

// Config configures a store.
type Config struct {
	// Servers are host:port or paths of sockets, in the order of envoyproxy/ratelimit's configuration.
	Servers []string
	// SRV, instead of Servers, is a DNS SRV record of the servers. It is looked up every Refresh, or once if that is 0.
	SRV     string
	Refresh time.Duration
	// Connections is the number of connections to each server for checks, at least 1. Pings and inspections open another
	// one.
	Connections int
	// Timeout bounds a check whose caller has a later deadline or none.
	Timeout time.Duration
	TLS     func() *tls.Config // returns the configuration of each connection; nil for no TLS
	Keys    ratelimit.Keys
	Trace   outbound.Trace // nil for none
	Log     *slog.Logger   // nil is slog.Default()

	// For tests; zero otherwise.
	now           func() time.Time
	skew          time.Duration // 0: maxSkew; negative: none
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
	Exchanges   uint64 // exchanges with servers, each with at most a read and a write
	Checks      uint64 // checks in them; a requeued check counts again
	LostRaces   uint64 // values that another process changed between reading and writing
	Dropped     uint64 // checks that were not counted because their callers had left
	Unavailable uint64 // checks without an answer
	Evictions   uint64 // values that servers evicted
	Restarts    uint64 // restarts and flushes of servers
	Ahead       uint64 // values that were written by a clock more than a second ahead
}

var _ backend.Shared = (*Store)(nil)

// Open makes a store. It does not wait for servers; see [backend.Health] for their state.
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
		s.running.Go(func() { s.followSRV(ctx) })
	} else {
		s.setServers(c.Servers)
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

// Decide sends each check to the server that owns its key. It returns by [backend.Deadline] of Config.Timeout. The Err
// of a check without an answer wraps ErrUnavailable.
func (s *Store) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := ratelimit.Validate(checks); err != nil {
		return err
	}
	return s.engine.Decide(ctx, checks, out)
}

// Encode copies a check, and returns the queue of its key.
func (s *Store) Encode(text []byte, c *backend.Check, r *request) ([]byte, *outbound.Queue[check], error) {
	servers := *s.servers.Load()
	if len(servers) == 0 {
		return text, nil, &backend.UnavailableError{Reason: backend.Down, Err: errors.Join(ErrUnavailable, errNoServers)}
	}
	limits := append(r.State.Limits[:0], c.Limits...)
	r.State = check{Check: *c}
	r.State.Key, r.State.Limits = nil, limits
	var at location
	if stem, ratelimits := descriptors.RatelimitKey(c.Key); ratelimits {
		r.State.isNumber, r.State.window = true, s.config.Keys.Window(&limits[0], s.config.now())
		text, at = servers.locateRatelimit(text, stem, r.State.window)
	} else {
		text, at = servers.locateWeir(text, c.Key, "")
	}
	r.State.name = at.name
	return text, at.server.Queues[at.hash%uint64(len(at.server.Queues))], nil
}

// Decode returns the decision of a check.
func (s *Store) Decode(r *request, _ *backend.Check) (backend.Decision, error) {
	return r.State.decision, nil
}

// Reopen returns an error: a queue only closes with the store, or when its server is removed.
func (s *Store) Reopen(closed *outbound.Queue[check]) (*outbound.Queue[check], error) {
	why := errRemoved
	if s.engine.Closed() {
		why = backend.ErrClosed
	}
	return nil, closed.Server.Unavailable(backend.Down, why)
}

// ReasonOf returns backend.Late: errors with other reasons are [backend.UnavailableError] already.
func (s *Store) ReasonOf(error) backend.Reason { return backend.Late }
