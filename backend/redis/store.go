package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/counter"
	"github.com/weirproxy/weir/descriptors"
)

// maxKept is how many bytes of keys and arguments a call may have room for to be used again.
const maxKept = 64 << 10

// minMargin is how long before its deadline a caller leaves at least, so that its answer can still be written.
const minMargin = 2 * time.Millisecond

// Store is a backend.Counter whose counts are in Redis servers.
//
// Checks for one server go there together: a batch leaves when none is out, or 1 ms after the last one left. A check is
// counted at most once, whatever becomes of the connection; it is sent again only if its own reply proves that it did
// not run.
type Store struct {
	topology  topology
	redirects redirecting // nil where servers do not name each other
	script    script
	now       func() string
	timeout   time.Duration

	lanes   sync.Map   // of *goredis.Client: *lane
	making  sync.Mutex // of lanes
	calls   sync.Pool  // of *call
	batches sync.Pool  // of *batch

	probed   *status // nil if nothing probes, as in tests
	closed   atomic.Bool
	stopping chan struct{}
	running  sync.WaitGroup // all goroutines of lanes

	sent, checks, redirected, resent, dropped, unavailable atomic.Uint64
}

var _ backend.Counter = (*Store)(nil)

// script is what the servers run, and its language.
type script struct {
	source, sha string
	appendKey   func(dst, key []byte, limits []descriptors.Limit) []byte
	appendArg   func(dst []byte, c *backend.Check) []byte
	decode      func(reply string, c *backend.Check) (backend.Decision, error)
}

// Open makes a store. It checks the configuration and waits for no server: one that is away is no error here. Whether
// the servers can count is probed in the background, logged, and told by Ready.
func Open(_ context.Context, c Config) (*Store, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	t, err := newTopology(c)
	if err != nil {
		return nil, err
	}
	s := newStore(t, c, script{
		source: counter.Source(), sha: counter.SHA(),
		appendKey: counter.AppendKey, appendArg: counter.AppendArg, decode: counter.Decode,
	})
	s.probed = watch(t, c)
	return s, nil
}

// newStore makes a store on a topology, which it closes in the end.
func newStore(t topology, c Config, code script) *Store {
	s := &Store{topology: t, script: code, now: c.Now, timeout: c.Timeout, stopping: make(chan struct{})}
	s.redirects, _ = t.(redirecting)
	if s.now == nil {
		s.now = func() string { return "" }
	}
	s.calls.New = func() any { return newCall() }
	s.batches.New = func() any { return newBatch(s) }
	return s
}

// Decide asks the servers that own the checks' keys, each at most once unless its answer proves that a check did not
// run. It returns at the latest 2 ms, or a tenth of the time that it had, before ctx's deadline, and after the store's
// timeout. The Err of a check that a server gave no answer to wraps ErrUnavailable.
func (s *Store) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := backend.Valid(checks, out); err != nil {
		return err
	}
	if s.closed.Load() {
		return backend.ErrClosed
	}
	leave := s.leave(ctx)
	// More checks than a batch holds go one batch after the other, so that those of one key stay in order.
	for len(checks) > 0 {
		n := min(len(checks), maxBatch)
		if err := s.decide(ctx, checks[:n], out[:n], leave); err != nil {
			return err
		}
		checks, out = checks[n:], out[n:]
	}
	return nil
}

// leave is when a caller who comes now leaves at the latest.
func (s *Store) leave(ctx context.Context) time.Time {
	now := time.Now()
	leave := now.Add(s.timeout)
	if deadline, ok := ctx.Deadline(); ok {
		if own := deadline.Add(-max(minMargin, deadline.Sub(now)/10)); own.Before(leave) {
			return own
		}
	}
	return leave
}

// decide is Decide for as many checks as a batch holds.
func (s *Store) decide(ctx context.Context, checks []backend.Check, out []backend.Decision, leave time.Time) error {
	now := time.Now()
	if ctx.Err() != nil || !now.Before(leave) {
		for i := range checks {
			s.fail(&out[i], cmp.Or(context.Cause(ctx), errLate))
		}
		return nil
	}
	c := s.calls.Get().(*call)
	c.set(checks, &s.script, leave)
	s.handOver(c, now)
	c.timer.Reset(leave.Sub(now))
	select {
	case <-c.done:
		c.timer.Stop()
		err := s.decode(c, checks, out, nil)
		s.recycle(c)
		return err
	case <-c.timer.C:
		return s.abandon(c, checks, out, errLate)
	case <-ctx.Done():
		return s.abandon(c, checks, out, context.Cause(ctx))
	}
}

// recycle keeps a call that no lane has any more for another one, unless it has grown large.
func (s *Store) recycle(c *call) {
	clear(c.asks)
	if cap(c.text) <= maxKept {
		s.calls.Put(c)
	}
}

// abandon leaves a call to the lanes that still work on it, with the answers that are there.
func (s *Store) abandon(c *call, checks []backend.Check, out []backend.Decision, why error) error {
	c.gone.Store(true)
	return s.decode(c, checks, out, why)
}

// decode reads the answers of a call; why is for those that are not there. Its error is ErrClosed or nil.
func (s *Store) decode(c *call, checks []backend.Check, out []backend.Decision, why error) error {
	closed := false
	for i := range checks {
		a := &c.asks[i]
		err := why
		if a.answered.Load() {
			err = a.err
			if err == nil {
				out[i], err = s.script.decode(a.reply, &checks[i])
			}
		}
		if err != nil {
			s.fail(&out[i], err)
			closed = closed || errors.Is(err, backend.ErrClosed)
		}
	}
	if closed {
		return backend.ErrClosed
	}
	return nil
}

// fail says that a check has no answer.
func (s *Store) fail(d *backend.Decision, why error) {
	s.unavailable.Add(1)
	*d = backend.Decision{Err: fmt.Errorf("%w: %w", ErrUnavailable, why)}
}

// handOver lets the checks of a call join the lanes of the servers that own their keys.
func (s *Store) handOver(c *call, now time.Time) {
	for i := range c.asks {
		a := &c.asks[i]
		client, err := s.topology.shard(a.key)
		if err == nil {
			a.lane, err = s.lane(client)
		}
		a.err, a.first, a.count = err, a, 1
		if err != nil {
			s.probed.hear(false)
			continue
		}
		c.link(i)
	}
	for i := range c.asks {
		a := &c.asks[i]
		switch {
		case a.first != a: // it has joined with the first one
		case a.err != nil:
			a.answer("", a.err)
		default:
			s.join(a, now)
		}
	}
}

// join lets asks in a row join their lane.
func (s *Store) join(first *ask, now time.Time) {
	for l := first.lane; !l.join(first, now); { // it has been idle for long, and has just closed
		var err error
		if l, err = s.newLane(l.client); err != nil {
			refuse(first, err)
			return
		}
	}
}

// lane is the lane to a server.
func (s *Store) lane(client *goredis.Client) (*lane, error) {
	if l, ok := s.lanes.Load(client); ok {
		return l.(*lane), nil
	}
	return s.newLane(client)
}

// newLane makes a lane if there is none, and forgets those whose servers may have gone.
func (s *Store) newLane(client *goredis.Client) (*lane, error) {
	s.making.Lock()
	defer s.making.Unlock()
	if s.closed.Load() {
		return nil, backend.ErrClosed
	}
	if l, ok := s.lanes.Load(client); ok {
		return l.(*lane), nil
	}
	s.retire(time.Now())
	l := newLane(s, client)
	s.lanes.Store(client, l)
	return l, nil
}

// retire forgets lanes that have had nothing to do for long. The caller holds making.
func (s *Store) retire(now time.Time) {
	for client, l := range s.lanes.Range {
		if l.(*lane).retire(now) {
			s.lanes.Delete(client)
		}
	}
}

// Ready is nil as soon as one server has shown that it can count, and stays it; else it says what is missing. It does
// not wait.
func (s *Store) Ready() error {
	if s.probed == nil {
		return nil
	}
	return s.probed.ready()
}

// Answers is nil if one server could count when they were last probed: at the start, and when a check got no answer.
// Else it says what is missing. It does not wait.
func (s *Store) Answers() error {
	if s.probed == nil {
		return nil
	}
	return s.probed.answers()
}

// Await waits until one server has shown that it can count. Its error is ctx's, or says what was missing when the time
// that Config.GiveUp names was over.
func (s *Store) Await(ctx context.Context) error {
	if s.probed == nil {
		return nil
	}
	select {
	case <-s.probed.settled:
		return s.probed.ready()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the store after the batches that are out, which takes the store's timeout at most, and closes all
// connections. Checks that wait are not counted.
func (s *Store) Close() error {
	s.making.Lock()
	first := !s.closed.Swap(true)
	s.making.Unlock()
	if !first {
		return nil
	}
	close(s.stopping)
	for _, l := range s.lanes.Range {
		l.(*lane).close(backend.ErrClosed)
	}
	s.running.Wait()
	if s.probed != nil {
		s.probed.close()
	}
	return s.topology.close()
}

// Stats are totals since the store was opened.
type Stats struct {
	Batches     uint64 // batches sent
	Checks      uint64 // checks in them
	Redirects   uint64 // redirects of a cluster that a check followed
	Resent      uint64 // checks sent again, redirected ones among them, as they had proof that they had not run
	Dropped     uint64 // checks not sent, or not again, because their callers had left
	Unavailable uint64 // checks without an answer
	Servers     []ServerStats
}

// ServerStats are about one server that was asked in the last minutes.
type ServerStats struct {
	Addr    string // host:port
	Out     int    // batches that are out now
	Waiting int    // checks that wait for the next one
}

// Stats tells what was sent, and what waits.
func (s *Store) Stats() Stats {
	stats := Stats{
		Batches: s.sent.Load(), Checks: s.checks.Load(), Redirects: s.redirected.Load(), Resent: s.resent.Load(),
		Dropped: s.dropped.Load(), Unavailable: s.unavailable.Load(),
	}
	s.making.Lock()
	defer s.making.Unlock()
	s.retire(time.Now())
	for _, l := range s.lanes.Range {
		stats.Servers = append(stats.Servers, l.(*lane).stats())
	}
	return stats
}
