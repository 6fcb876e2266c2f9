// Package pipeline brings questions to Redis servers, each at most once unless its reply proves that it did not run.
//
// Checks for one server wait in its queue and leave together: a batch leaves when none is out, or 1 ms after the last
// one. Each server has a breaker, with PINGs, so that callers do not wait for one that does not answer. A [Codec] puts
// checks into commands. Commands that may run twice go without a queue, by Do, Run and Ask.
package pipeline

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// maxKept is how many bytes of keys and arguments a call may have that is reused.
const maxKept = 64 << 10

// Pipeline decides checks on servers. Its methods may be called by any number of goroutines.
type Pipeline struct {
	servers *topology.Servers
	codec   Codec
	script  *Script // nil where none is needed
	meter   func(server string) Meter

	queues   sync.Map   // of *goredis.Client: *queue
	queuesMu sync.Mutex // held to add and remove queues
	calls    sync.Pool  // of *call
	batches  sync.Pool  // of *Batch

	deadlines deadlines // of all callers
	*Health
	closed   atomic.Bool
	stopping chan struct{}
	running  sync.WaitGroup // all goroutines of queues

	totals struct{ batches, checks, dropped, unavailable atomic.Uint64 } // see Stats
}

// Meter measures one server. Its methods may be called by any number of goroutines.
type Meter interface {
	// Answered is told how long the server took to answer a batch, with connecting where that was needed.
	Answered(took time.Duration)
	// Waited is told how long the checks of a call waited until their batch left.
	Waited(took time.Duration)
	// Gone is called when the server is not asked any more.
	Gone()
}

// ErrUnavailable is wrapped by a decision's Err when its check got no answer: its server is away, too slow, or refuses
// to count. The check was counted at most once.
var ErrUnavailable = errors.New("redis is unavailable")

var (
	errLate = errors.New("no answer in time")
	errBusy = errors.New("more checks wait for the server than it can answer in time")
)

// New makes a pipeline to servers, which it closes in the end. The script, nil for none, is loaded where it is missing.
// The meter of a server, nil for none, is asked for when the server is first asked, and anew after Gone.
func New(servers *topology.Servers, codec Codec, script *Script, meter func(server string) Meter) *Pipeline {
	p := &Pipeline{servers: servers, codec: codec, script: script, meter: meter, Health: newHealth(servers),
		stopping: make(chan struct{})}
	p.calls.New = func() any { return newCall() }
	p.batches.New = func() any { return newBatch(p) }
	return p
}

// Close waits for the batches that are out, for the servers' timeout at most, and closes all connections. Checks that
// wait are not counted.
func (p *Pipeline) Close() error {
	p.queuesMu.Lock()
	first := !p.closed.Swap(true)
	p.queuesMu.Unlock()
	if !first {
		return nil
	}
	close(p.stopping)
	for _, q := range p.queues.Range {
		q.(*queue).close(backend.ErrClosed)
	}
	p.running.Wait()
	p.Health.Close()
	return p.servers.Close()
}

// enqueue adds a group to its queue.
func (p *Pipeline) enqueue(g *group, now time.Time) {
	for q := g.queue; !q.enqueue(g, now); { // it was idle, and has just closed
		err := backend.ErrClosed
		if !p.closed.Load() {
			q, err = p.queue(q.client)
		}
		if err != nil {
			g.refuse(err)
			return
		}
	}
}

// ownerQueue returns the queue to the server that owns a key.
func (p *Pipeline) ownerQueue(key []byte) (*queue, error) {
	client, err := p.servers.Owner(key)
	if err != nil {
		return nil, err
	}
	return p.queue(client)
}

// queue returns the queue to a server. If there is none, it makes one, and retires idle ones.
func (p *Pipeline) queue(client *goredis.Client) (*queue, error) {
	if q, ok := p.queues.Load(client); ok {
		return q.(*queue), nil
	}
	p.retire(time.Now())
	p.queuesMu.Lock()
	defer p.queuesMu.Unlock()
	if p.closed.Load() {
		return nil, backend.ErrClosed
	}
	if q, ok := p.queues.Load(client); ok {
		return q.(*queue), nil
	}
	q := newQueue(p, client)
	p.queues.Store(client, q)
	return q, nil
}

// retire closes idle queues.
func (p *Pipeline) retire(now time.Time) {
	p.queuesMu.Lock()
	defer p.queuesMu.Unlock()
	for client, q := range p.queues.Range {
		if q.(*queue).retire(now) {
			p.queues.Delete(client)
			if meter := q.(*queue).meter; meter != nil {
				meter.Gone()
			}
		}
	}
}

// Away reports whether no server is known to own a Redis key, or the one that does is known not to answer.
func (p *Pipeline) Away(key string) bool {
	client, err := p.servers.Owner([]byte(key))
	if err != nil {
		return true
	}
	q, known := p.queues.Load(client)
	return known && q.(*queue).awayError() != nil
}

// Stats are totals since the pipeline was made.
type Stats struct {
	Batches     uint64 // batches sent
	Checks      uint64 // checks in them
	Dropped     uint64 // checks not sent, or not again, because their callers had left
	Unavailable uint64 // checks without an answer
	Losses      uint64 // times that servers may have lost their counts, or keys went to another one without theirs
	Servers     []ServerStats
}

// Add adds those of another pipeline.
func (s *Stats) Add(other Stats) {
	s.Batches += other.Batches
	s.Checks += other.Checks
	s.Dropped += other.Dropped
	s.Unavailable += other.Unavailable
	s.Losses = max(s.Losses, other.Losses) // both may be on the same servers
	s.Servers = append(s.Servers, other.Servers...)
}

// ServerStats are about one server that was asked in the last minutes.
type ServerStats struct {
	Name    string // host:port, or how the configuration names it
	Out     int    // batches that are out now
	Waiting int    // checks that wait for the next one
	Away    bool   // it is known not to answer, and has not answered a batch since
	Foreign string // the foreign library for which its functions are not used; "": none
}

// Stats returns what was sent, and what waits.
func (p *Pipeline) Stats() Stats {
	n := &p.totals
	stats := Stats{
		Batches: n.batches.Load(), Checks: n.checks.Load(), Dropped: n.dropped.Load(),
		Unavailable: n.unavailable.Load(), Losses: p.servers.Losses(),
	}
	p.retire(time.Now())
	for _, q := range p.queues.Range {
		stats.Servers = append(stats.Servers, q.(*queue).stats())
	}
	return stats
}

// Servers returns the state of each server by its name, as the last probe found it, with what checks have shown since;
// before it has found any, one that is away. But for a node of a ring, the loss of a server that gets no checks may go
// unnoticed for ten minutes.
func (p *Pipeline) Servers() map[string]backend.ServerState {
	known := make(map[string]backend.ServerState)
	found := p.troubles.Load()
	if found == nil {
		return known
	}
	for name, trouble := range *found {
		if name != serverList {
			known[name] = stateOf(cmp.Or((*found)[serverList], trouble))
		}
	}
	for _, q := range p.queues.Range {
		server := q.(*queue).stats()
		_, listed := known[server.Name]
		switch {
		case listed && server.Away:
			known[server.Name] = backend.ServerAway
		case !listed && !server.Away: // it has just come
			known[server.Name] = backend.ServerUp
		}
	}
	for name := range known {
		if p.servers.NodeLost(name) {
			known[name] = backend.ServerAway
		}
	}
	if len(known) == 0 {
		known["redis"] = backend.ServerAway
	}
	return known
}
