// Package counter counts in Redis servers that all replicas of weir share. README.md draws a check's way through it,
// KEYS.md what the servers hold.
//
// Checks for the same server go there together, as one call of the script in package script; each is counted at most
// once, whatever becomes of the connection.
package counter

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
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/script"
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
	servers  *redis.Servers
	language language
	script   *redis.Script // in that language
	now      func() string
	meter    func(server string) Meter // nil for none

	lanes   sync.Map   // of *goredis.Client: *lane
	making  sync.Mutex // of lanes
	calls   sync.Pool  // of *call
	batches sync.Pool  // of *batch

	told       sync.Map   // what was logged last of a server: how it is called, what keeps libraries there
	departures departures // of all callers

	health   *redis.Health // nil if nothing probes, as in tests
	heart    *heart        // nil likewise
	closed   atomic.Bool
	stopping chan struct{}
	running  sync.WaitGroup // all goroutines of lanes

	sent, checks, dropped, unavailable atomic.Uint64
	resends                            redis.Resends
}

var _ backend.Counter = (*Store)(nil)

// ErrUnavailable is wrapped by a decision's Err when its check got no answer: its server is away, too slow, or refuses
// to count. Whether such a check was counted is unknown; it was at most once.
var ErrUnavailable = errors.New("redis is unavailable")

var (
	errLate       = errors.New("no answer in time")
	errBusy       = errors.New("more checks wait for the server than it can answer in time")
	errUnreadable = errors.New("the reply is not the script's")
)

// language is what the script is asked, and what it answers.
type language struct {
	appendKey func(dst, key []byte) []byte
	appendArg func(dst []byte, c *backend.Check) []byte
	decode    func(reply string, c *backend.Check) (backend.Decision, error)
}

// Config is where weir counts.
type Config struct {
	// Redis is how the servers are reached.
	Redis redis.Config
	// Now, if not nil, is the clock in place of the servers': it returns the time in decimal microseconds. It is for
	// tests.
	Now func() string
	// Meter, if not nil, returns what measures a server. It is asked once for each server, as soon as that is asked.
	Meter func(server string) Meter
}

// Meter measures one server. Its methods may be called by any number of goroutines.
type Meter interface {
	// Answered is told how long the server took to answer a batch, with making a connection where that was needed.
	Answered(took time.Duration)
	// Waited is told how long the checks of a call waited until their batch left.
	Waited(took time.Duration)
	// Gone is called when the server is not asked any more.
	Gone()
}

// Open makes a store. It checks the configuration and waits for no server: one that is away is no error here. Whether
// the servers can count is probed in the background, logged, and reported by Health.
func Open(c Config) (*Store, error) { return open(c, newScript()) }

// open is Open for a version of the script.
func open(c Config, code *redis.Script) (*Store, error) {
	servers, err := redis.Connect(c.Redis, rights())
	if err != nil {
		return nil, err
	}
	s := newStore(servers, c.Now, code, language{script.AppendKey, script.AppendArg, script.Decode})
	s.meter = c.Meter
	s.health = servers.Watch(s.probe)
	s.heart = newHeart(s)
	return s, nil
}

func newScript() *redis.Script {
	return redis.NewScript(script.Source()).WithLibrary(script.Library(), script.Function())
}

// newStore makes a store on servers, which it closes in the end.
func newStore(servers *redis.Servers, now func() string, code *redis.Script, l language) *Store {
	s := &Store{servers: servers, language: l, script: code, now: now, stopping: make(chan struct{})}
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
	if len(checks) <= maxBatch {
		return s.decide(ctx, checks, out, leave)
	}
	return s.decideLarge(ctx, checks, out, leave)
}

// leave returns when a caller who comes now leaves at the latest.
func (s *Store) leave(ctx context.Context) time.Time {
	now := time.Now()
	leave := now.Add(s.servers.Timeout())
	if deadline, ok := ctx.Deadline(); ok {
		if own := deadline.Add(-max(minMargin, deadline.Sub(now)/10)); own.Before(leave) {
			return own
		}
	}
	return leave
}

// decide is Decide for as many checks as a batch holds.
func (s *Store) decide(ctx context.Context, checks []backend.Check, out []backend.Decision, leave time.Time) error {
	return s.finish(ctx, s.begin(ctx, checks, leave), checks, out)
}

// begin lets checks join their lanes, unless their caller has left: then there is no call.
func (s *Store) begin(ctx context.Context, checks []backend.Check, leave time.Time) *call {
	now := time.Now()
	if ctx.Err() != nil || !now.Before(leave) {
		return nil
	}
	c := s.calls.Get().(*call)
	c.set(checks, &s.language, leave)
	s.handOver(c, now)
	s.departures.add(c, now)
	return c
}

// finish waits for the answers of a call, while its caller can wait.
func (s *Store) finish(ctx context.Context, c *call, checks []backend.Check, out []backend.Decision) error {
	if c == nil {
		for i := range checks {
			s.fail(&out[i], cmp.Or(context.Cause(ctx), errLate))
		}
		return nil
	}
	select {
	case <-c.done:
		if !s.departures.remove(c) {
			return s.abandon(c, checks, out, errLate)
		}
		err := s.decode(c, checks, out, nil)
		s.recycle(c)
		return err
	case <-ctx.Done():
		s.departures.remove(c)
		return s.abandon(c, checks, out, context.Cause(ctx))
	}
}

// decideLarge is Decide for more checks than a batch holds. They go in several calls at the same time, as many checks to
// each as a batch holds; but a key that has been in one is not in another before that is answered, so that it is charged
// in order.
func (s *Store) decideLarge(ctx context.Context, checks []backend.Check, out []backend.Decision, leave time.Time) error {
	var failed error
	for len(checks) > 0 {
		sizes := sizesAtOnce(checks)
		calls, from := make([]*call, len(sizes)), 0
		for i, n := range sizes {
			calls[i] = s.begin(ctx, checks[from:from+n], leave)
			from += n
		}
		from = 0
		for i, n := range sizes {
			failed = cmp.Or(failed, s.finish(ctx, calls[i], checks[from:from+n], out[from:from+n]))
			from += n
		}
		checks, out = checks[from:], out[from:]
	}
	return failed
}

// sizesAtOnce returns how many checks, from the first one on, may go in each of several calls at the same time.
func sizesAtOnce(checks []backend.Check) (sizes []int) {
	in := make(map[string]int, len(checks)) // the call that a key is in
	for i := range checks {
		if last := len(sizes) - 1; last < 0 || sizes[last] == maxBatch {
			sizes = append(sizes, 0)
		}
		last := len(sizes) - 1
		if at, known := in[string(checks[i].Key)]; known && at != last {
			if sizes[last] == 0 {
				sizes = sizes[:last]
			}
			return sizes
		}
		in[string(checks[i].Key)] = last
		sizes[last]++
	}
	return sizes
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
				out[i], err = s.language.decode(a.reply, &checks[i])
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

// fail makes a decision that of a check without an answer.
func (s *Store) fail(d *backend.Decision, why error) {
	s.unavailable.Add(1)
	*d = backend.Decision{Err: awayFor(why)}
}

// awayFor returns why a check has no answer as the Err of its decision. It wraps ErrUnavailable.
func awayFor(why error) *backend.Away {
	if away, is := why.(*backend.Away); is {
		return away
	}
	reason := backend.Late
	var reply goredis.Error
	switch {
	case errors.Is(why, errBusy):
		reason = backend.Busy
	case errors.As(why, &reply), errors.Is(why, errUnreadable):
		reason = backend.Refused
	case errors.Is(why, redis.ErrNoOwner):
		reason = backend.Down
	}
	return &backend.Away{Reason: reason, Err: fmt.Errorf("%w: %w", ErrUnavailable, why)}
}

// handOver lets the checks of a call join the lanes of the servers that own their keys.
func (s *Store) handOver(c *call, now time.Time) {
	for i := range c.asks {
		a := &c.asks[i]
		client, err := s.servers.Owner(a.key)
		if err == nil {
			a.lane, err = s.lane(client)
		}
		a.err, a.first, a.count = err, a, 1
		if err != nil {
			s.health.Heard(false)
			continue
		}
		c.link(i)
	}
	for i := range c.asks {
		a := &c.asks[i]
		switch {
		case a.first != a: // it has joined with the first one
		case a.err != nil:
			a.answer(a.err)
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

// lane returns the lane to a server.
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
			s.unmeter(l.(*lane))
		}
	}
}

// unmeter ends the measuring of a server, unless another lane leads to one of that name.
func (s *Store) unmeter(gone *lane) {
	if gone.meter == nil {
		return
	}
	for _, l := range s.lanes.Range {
		if l.(*lane).name == gone.name {
			return
		}
	}
	gone.meter.Gone()
}

// tidyLanes is retire for a caller who does not hold making.
func (s *Store) tidyLanes() {
	s.making.Lock()
	defer s.making.Unlock()
	s.retire(time.Now())
}

// Health returns what is known about the servers.
func (s *Store) Health() *redis.Health { return s.health }

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
	s.heart.Close()
	s.health.Close()
	return s.servers.Close()
}

// StatesSince returns how many states a key may have had since t, at most: one, and one more for each time that its
// server was away or another took its place. A key may be admitted up to its limit in each of them.
func (s *Store) StatesSince(t time.Time) int { return s.servers.StatesSince(t) }

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
	Name    string // host:port, or how the configuration names it
	Out     int    // batches that are out now
	Waiting int    // checks that wait for the next one
	Away    bool   // it is known not to answer, and has not answered a batch since
}

// Stats returns what was sent, and what waits.
func (s *Store) Stats() Stats {
	stats := Stats{
		Batches: s.sent.Load(), Checks: s.checks.Load(), Redirects: s.resends.Redirected.Load(),
		Resent: s.resends.Resent.Load(), Dropped: s.dropped.Load(), Unavailable: s.unavailable.Load(),
	}
	s.making.Lock()
	defer s.making.Unlock()
	s.retire(time.Now())
	for _, l := range s.lanes.Range {
		stats.Servers = append(stats.Servers, l.(*lane).stats())
	}
	return stats
}
