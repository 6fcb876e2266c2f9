package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// heartbeat is how often each node is asked whether it lives, and pulseTime how long it may take to answer.
	heartbeat = 500 * time.Millisecond
	pulseTime = 250 * time.Millisecond
	// missedMost is how many heartbeats in a row a node may miss before it counts as lost; go-redis has the same.
	missedMost = 3
)

// ring is a number of independent servers. go-redis keeps the list of those that live and places keys on them by
// rendezvous hashing of their names: a key is where its hash scores highest, so a node that comes or goes moves only
// the keys that it gets or had.
//
// go-redis asks one node after the other whether it lives, so that a few that swallow packets would hold up the news of
// all others. Here it is told at once what the latest heartbeat found, and all nodes are asked at the same time: a loss
// is noticed within about two seconds, however many are lost.
type ring struct {
	options *options
	loss    NodeLoss
	log     *slog.Logger

	client *goredis.Ring
	nodes  sync.Map // *goredis.Client, as go-redis knows a node, to *node; those that are on their way out too
	ctx    context.Context
	stop   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	current map[string]*node // by the address that go-redis is given: see node.ref
	made    int
}

// node is a server of a ring.
type node struct {
	target
	ref    string          // its name and a number: another one makes go-redis replace a node whose credentials changed
	client *goredis.Client // for keys
	pulse  *goredis.Client // for heartbeats, which must not wait behind keys; go-redis owns it
	lost   error           // what Pin answers while it is

	beating atomic.Bool
	alive   atomic.Bool // as the latest heartbeat found it
	missed  atomic.Int32
}

func newRing(c Config, o *options) (topology, error) {
	list, err := c.readURL()
	if err != nil {
		return nil, err
	}
	targets, err := parseNodes(list)
	if err != nil {
		return nil, c.blame(err)
	}
	r := &ring{options: o, loss: c.NodeLoss, log: c.Log, current: make(map[string]*node)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.client = goredis.NewRing(&goredis.RingOptions{
		NewClient:          r.newPulse,
		HeartbeatFrequency: heartbeat,
		HeartbeatFn:        r.lives,
	})
	r.set(targets)
	if c.URLFile != "" {
		r.running.Go(func() { r.follow(c.URLFile, list) })
	}
	return r, nil
}

// set makes these the nodes of the ring. One that was there before stays as it is.
func (r *ring) set(targets []target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	before := r.current
	r.current = make(map[string]*node, len(targets))
	refs := make(map[string]string, len(targets))
	for _, t := range targets {
		n := find(before, t)
		if n == nil {
			n = r.newNode(t)
		}
		r.current[n.ref] = n
		refs[n.name] = n.ref
	}
	r.client.SetAddrs(refs)
	for ref, n := range before {
		if r.current[ref] == nil {
			r.retire(n)
		}
	}
}

func find(nodes map[string]*node, t target) *node {
	for _, n := range nodes {
		if n.target == t {
			return n
		}
	}
	return nil
}

func (r *ring) newNode(t target) *node {
	r.made++
	n := &node{
		target: t,
		ref:    fmt.Sprintf("%s#%d", t.name, r.made),
		client: goredis.NewClient(r.options.client(t)),
		lost:   fmt.Errorf("ring node %s does not answer, and its keys are pinned to it", t.name),
	}
	n.alive.Store(true)
	return n
}

// newPulse is how go-redis makes the client of a node while set adds it.
func (r *ring) newPulse(o *goredis.Options) *goredis.Client {
	n := r.current[o.Addr]
	own := r.options.client(n.target)
	own.PoolSize = 1
	n.pulse = goredis.NewClient(own)
	r.nodes.Store(n.pulse, n)
	return n.pulse
}

// retire closes the client of a node that has left, once what is on its way there has had its time.
func (r *ring) retire(n *node) {
	time.AfterFunc(r.options.timeout+time.Second, func() {
		r.nodes.Delete(n.pulse)
		_ = n.client.Close() // nobody waits for its answers any more
	})
}

var errNoNode = errors.New("no node of the ring answers")

func (r *ring) shard(key []byte) (*goredis.Client, error) {
	pulse, err := r.client.GetShardClientForKey(string(key))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoNode, err)
	}
	found, ok := r.nodes.Load(pulse)
	if !ok {
		return nil, errNoNode // it left two seconds ago, in the midst of this call
	}
	n := found.(*node)
	if r.loss == Pin && n.missed.Load() >= missedMost {
		return nil, n.lost
	}
	return n.client, nil
}

// lives is go-redis's question whether a node lives, once every heartbeat. It starts to find out and tells what was
// found last. Pinned keys stay, so then all nodes live.
func (r *ring) lives(ctx context.Context, pulse *goredis.Client) bool {
	found, ok := r.nodes.Load(pulse)
	if !ok {
		return false
	}
	n := found.(*node)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && n.beating.CompareAndSwap(false, true) {
		r.running.Go(func() {
			r.beat(n)
			n.beating.Store(false)
		})
	}
	return r.loss == Pin || n.alive.Load()
}

// beat finds out whether a node lives: only a server that answers PING with PONG can count.
func (r *ring) beat(n *node) {
	ctx, cancel := context.WithTimeout(r.ctx, pulseTime)
	defer cancel()
	err := n.pulse.Ping(ctx).Err()
	if r.ctx.Err() != nil || errors.Is(err, goredis.ErrClosed) {
		return
	}
	n.alive.Store(err == nil)
	if err == nil {
		if n.missed.Swap(0) >= missedMost {
			r.log.Info("ring node is back", "node", n.name)
		}
		return
	}
	if n.missed.Add(1) == missedMost {
		r.log.Warn("ring node does not answer", "node", n.name, "on_node_loss", r.loss.String(), "error", err)
	}
}

func (r *ring) servers(context.Context) ([]server, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]server, 0, len(r.current))
	for _, n := range r.current {
		all = append(all, server{name: n.name, client: n.client, key: probeKey(0), login: r.options.login.of(n.target), told: true})
	}
	return all, nil
}

func (r *ring) close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	err := r.client.Close()
	r.running.Wait()
	r.nodes.Range(func(_, found any) bool {
		if failed := found.(*node).client.Close(); !errors.Is(failed, goredis.ErrClosed) {
			err = errors.Join(err, failed)
		}
		return true
	})
	return err
}
