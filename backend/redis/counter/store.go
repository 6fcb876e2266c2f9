// Package counter counts in Redis servers that all replicas of weir share. README.md draws a check's way through it,
// KEYS.md what the servers hold.
//
// Checks for the same server go there together, as one call of the script in package script, or in a pipeline of INCRBYs
// that package incr gives the numbers of; each is counted at most once, whatever becomes of the connection.
package counter

import (
	"errors"
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

// minMargin is how long before its deadline a caller leaves at least, so that its answer can still be written and reach
// it. Of Envoy's usual 20 ms one more would let a tenth as many answers to a server that has just frozen come late, and
// leave one of twenty without an answer of a server that takes 15.
const minMargin = 2 * time.Millisecond

// Store is a backend.Counter whose counts are in Redis servers.
//
// Checks for one server go there together: a batch leaves when none is out, or 1 ms after the last one left. A check is
// counted at most once, whatever becomes of the connection; it is sent again only if its own reply proves that it did
// not run.
type Store struct {
	servers *redis.Servers
	method  method
	script  *redis.Script // nil where none is needed
	now     func() string
	meter   func(server string) Meter // nil for none
	beside  *Store                    // nil, or one whose checks for the same servers are measured together with these

	lanes   sync.Map   // of *goredis.Client: *lane
	making  sync.Mutex // of lanes
	calls   sync.Pool  // of *call
	batches sync.Pool  // of *batch

	told       sync.Map   // what was logged last of a server: how it is called, what keeps libraries there
	departures departures // of all callers
	places     places     // of listings

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
	errSlow       = errors.New("the server answers later than this caller can wait")
	errBusy       = errors.New("more checks wait for the server than it can answer in time")
	errUnreadable = errors.New("the reply is not the script's")
)

// method is how checks are counted.
type method interface {
	// put appends to text what is sent of a check, and lets the ask have it.
	put(text []byte, c *backend.Check, a *ask) []byte
	// decide reads the answer to a check.
	decide(a *ask, c *backend.Check) (backend.Decision, error)
	// form returns what a batch puts its checks into.
	form() form
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
	s.watch()
	return s, nil
}

// watch begins to probe the servers, and to tell that this process lives.
func (s *Store) watch() {
	s.health = s.servers.Watch(s.probe)
	s.heart = newHeart(s)
}

func newScript() *redis.Script {
	return redis.NewScript(script.Source()).WithLibrary(script.Library(), script.Function())
}

// newStore makes a store by a script on servers, which it closes in the end.
func newStore(servers *redis.Servers, now func() string, code *redis.Script, l language) *Store {
	s := newStoreOn(servers, now)
	s.script, s.method = code, scripted{s, l}
	return s
}

// newStoreOn makes a store that has no method yet.
func newStoreOn(servers *redis.Servers, now func() string) *Store {
	s := &Store{servers: servers, now: now, stopping: make(chan struct{})}
	if s.now == nil {
		s.now = func() string { return "" }
	}
	s.calls.New = func() any { return newCall() }
	s.batches.New = func() any { return newBatch(s) }
	return s
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
	if gone.meter != nil && !s.leadsTo(gone.name) && (s.beside == nil || !s.beside.leadsTo(gone.name)) {
		gone.meter.Gone()
	}
}

// leadsTo reports whether a lane leads to a server of that name.
func (s *Store) leadsTo(name string) bool {
	for _, l := range s.lanes.Range {
		if l.(*lane).name == name {
			return true
		}
	}
	return false
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

// Known returns the state of each server by its name, as [redis.Health.Known] does, with what checks have shown since.
func (s *Store) Known() map[string]redis.State {
	known := s.health.Known()
	for _, l := range s.lanes.Range {
		one := l.(*lane).stats()
		_, listed := known[one.Name]
		switch {
		case listed && one.Away:
			known[one.Name] = redis.Away
		case !listed && !one.Away && s.servers.Redirect(): // a cluster has just sent checks there
			known[one.Name] = redis.Up
		}
	}
	return known
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
