// Package pipeline sends requests to Redis servers, each at most once unless its reply proves that it did not run.
//
// Package outbound queues checks: it sends a batch when none is out, or 1 ms after the last one. A [Codec] puts checks
// into commands. Do, Run and Pipeline.Send send commands that may run twice, without a queue.
package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
	"github.com/weirproxy/weir/backend/redis/topology"
)

const (
	// pace is the least time between batches to a server while one is out.
	pace = time.Millisecond
	// maxOut is how many batches to a server may be out.
	maxOut = 16
)

// Pipeline decides checks on servers. Its methods may be called by any number of goroutines.
type Pipeline struct {
	engine  *outbound.Engine[RequestState]
	servers *topology.Servers
	codec   Codec
	script  *Script // nil if the codec calls none
	meter   func(server string) Meter

	peers    sync.Map   // of *goredis.Client: *peer
	peersMu  sync.Mutex // held to add and remove peers
	stopping chan struct{}
	health   *health
}

// Meter measures one server. Its methods may be called by any number of goroutines.
type Meter interface {
	// Answered records how long the server took to answer a batch, connecting included.
	Answered(took time.Duration)
	// Waited records how long the checks of a call waited until their batch was sent.
	Waited(took time.Duration)
	// Gone ends the meter: no more requests go to the server.
	Gone()
}

// ErrUnavailable is wrapped by a decision's Err when its check got no answer: its server is away, too slow, or refuses
// to count. The check was counted at most once.
var ErrUnavailable = errors.New("redis is unavailable")

// New makes a pipeline to servers, which its Close closes. A script is loaded into servers that lack it; it may be nil,
// as may meter and trace. meter is called before the first request to a server, and before the first one after Gone.
func New(servers *topology.Servers, codec Codec, script *Script, meter func(server string) Meter, trace outbound.Trace) *Pipeline {
	p := &Pipeline{servers: servers, codec: codec, script: script, meter: meter, stopping: make(chan struct{})}
	p.engine = outbound.New(outbound.Config{
		ErrUnavailable: ErrUnavailable, Timeout: servers.Config.Timeout, Pace: pace, Trace: trace}, engineCodec{p})
	p.health = newHealth(servers, p.engine.Broadcast)
	servers.OnNodeChange(p.engine.Broadcast)
	return p
}

// StartProbes starts to probe the servers in the background, until Close.
func (p *Pipeline) StartProbes(probe Probe) { p.health.start(probe) }

// Decide sends each check to the server that owns its key, and sends it again only if a reply proves that it did not
// run. It returns by [backend.Deadline] of the servers' timeout. The Err of a check without an answer wraps
// ErrUnavailable.
func (p *Pipeline) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	return p.engine.Decide(ctx, checks, out)
}

// Close waits for the batches that are out, for the servers' timeout at most, and closes all connections. Checks that
// wait are not counted.
func (p *Pipeline) Close() error {
	p.peersMu.Lock()
	first := p.engine.Close()
	p.peersMu.Unlock()
	if !first {
		return nil
	}
	close(p.stopping)
	for _, one := range p.peers.Range {
		one.(*peer).server.Close(backend.ErrClosed)
	}
	p.engine.Wait()
	p.health.end()
	return p.servers.Close()
}

// owner returns the server that owns a key.
func (p *Pipeline) owner(key []byte) (*peer, error) {
	client, err := p.servers.Owner(key)
	if err != nil {
		return nil, err
	}
	return p.peer(client)
}

// peer returns the server behind a client. If the server is new, peer retires idle ones.
func (p *Pipeline) peer(client *goredis.Client) (*peer, error) {
	if one, ok := p.peers.Load(client); ok {
		return one.(*peer), nil
	}
	p.retire(time.Now())
	p.peersMu.Lock()
	defer p.peersMu.Unlock()
	if p.engine.Closed() {
		return nil, backend.ErrClosed
	}
	if one, ok := p.peers.Load(client); ok {
		return one.(*peer), nil
	}
	one := newPeer(p, client)
	p.peers.Store(client, one)
	return one, nil
}

// retire closes idle servers.
func (p *Pipeline) retire(now time.Time) {
	p.peersMu.Lock()
	defer p.peersMu.Unlock()
	for client, one := range p.peers.Range {
		one := one.(*peer)
		if one.server.Retire(now, func() bool { return topology.Closed(one.client) }) {
			p.peers.Delete(client)
			p.engine.Broadcast()
			if one.meter != nil {
				one.meter.Gone()
			}
		}
	}
}

// Away reports whether the server that owns a Redis key is unknown, or does not answer.
func (p *Pipeline) Away(key string) bool {
	client, err := p.servers.Owner([]byte(key))
	if err != nil {
		return true
	}
	one, ok := p.peers.Load(client)
	return ok && one.(*peer).server.Away() != nil
}

// Stats are totals since the pipeline was made.
type Stats struct {
	Batches     uint64 // batches sent
	Checks      uint64 // checks in them
	Dropped     uint64 // checks not sent, or not again, because their callers had left
	Unavailable uint64 // checks without an answer
	Losses      uint64 // times that a server may have lost its counts, or keys moved to another one without their counts
	Servers     []ServerStats
}

// Add adds the statistics of another pipeline.
func (s *Stats) Add(other Stats) {
	s.Batches += other.Batches
	s.Checks += other.Checks
	s.Dropped += other.Dropped
	s.Unavailable += other.Unavailable
	s.Losses = max(s.Losses, other.Losses) // both may be on the same servers
	s.Servers = append(s.Servers, other.Servers...)
}

// ServerStats is the state of one server that got requests in the last minutes.
type ServerStats struct {
	Name    string // host:port, or how the configuration names it
	Out     int    // batches that are out now
	Waiting int    // checks that wait for the next one
	Away    bool   // it does not answer
	Foreign string // a foreign library because of which its functions are not used; "" for none
}

// Stats returns totals since the pipeline was made, and the present state of each server.
func (p *Pipeline) Stats() Stats {
	n := &p.engine.Totals
	stats := Stats{
		Batches: n.Batches.Load(), Checks: n.Checks.Load(), Dropped: n.Dropped.Load(),
		Unavailable: n.Unavailable.Load(), Losses: p.servers.Losses(),
	}
	p.retire(time.Now())
	for _, one := range p.peers.Range {
		stats.Servers = append(stats.Servers, one.(*peer).stats())
	}
	return stats
}

// ProbeErr implements [backend.Health].
func (p *Pipeline) ProbeErr() error { return p.health.probeErr() }

// Await waits until a server has shown that it can count, or topology.Config.GiveUp is over.
func (p *Pipeline) Await(ctx context.Context) error { return p.health.await(ctx) }

// Notify implements [backend.Health].
func (p *Pipeline) Notify(c chan<- struct{}) { p.engine.Notify(c) }

// Servers returns the state of each server by its name, from the last probe and the checks since then. Before the first
// probe it returns one server, away. The loss of a server without checks may go unnoticed for ten minutes, unless it is
// a node of a ring.
func (p *Pipeline) Servers() map[string]backend.ServerState {
	known := make(map[string]backend.ServerState)
	found := p.health.statuses.Load()
	if found == nil {
		return known
	}
	list := (*found)[serverList].state
	for name, s := range *found {
		if known[name] = s.state; list != backend.ServerUp {
			known[name] = list
		}
	}
	delete(known, serverList)
	for _, one := range p.peers.Range {
		server := one.(*peer).stats()
		_, listed := known[server.Name]
		switch {
		case listed && server.Away:
			known[server.Name] = backend.ServerAway
		case !listed && !server.Away: // not probed yet
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
