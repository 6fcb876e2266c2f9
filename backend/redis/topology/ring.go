package topology

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/descriptors/regular"
)

const (
	// Each node gets a PING every pingInterval, and has pingTimeout to answer.
	pingInterval = 500 * time.Millisecond
	pingTimeout  = 250 * time.Millisecond
	// maxMissed is how many PINGs in a row a node misses before it counts as lost.
	maxMissed = 3
)

// ring is a number of independent servers. The live server with the highest score for a key owns it. Each node gets
// PINGs.
type ring struct {
	*options

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex // held to change the nodes
	nodes    []*node
	retired  []*node                 // have left the ring, and may still answer
	owners   atomic.Pointer[[]*node] // the nodes that own keys
	onChange []func()                // called after owners has changed
}

// node is a server of a ring.
type node struct {
	target
	hash      uint64
	client    *goredis.Client
	errLost   error        // the error for its pinned keys while it is lost
	missed    atomic.Int32 // PINGs in a row
	stopPings context.CancelFunc
}

func newRing(list string, o *options) (Topology, error) {
	targets, err := parseNodes(list)
	if err != nil {
		return nil, err
	}
	r := &ring{options: o}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.setNodes(targets)
	if r.URLFile != "" && !r.Fixed {
		r.running.Go(func() { r.followFile(list) })
	}
	return r, nil
}

// setNodes sets the nodes of the ring. It leaves nodes alone that the ring has already.
func (r *ring) setNodes(targets []target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	before := r.nodes
	r.nodes = make([]*node, len(targets))
	for i, t := range targets {
		if at := slices.IndexFunc(before, func(n *node) bool { return n.target == t }); at >= 0 {
			r.nodes[i] = before[at]
		} else {
			r.nodes[i] = r.newNode(t)
		}
	}
	for _, n := range before {
		if !slices.Contains(r.nodes, n) {
			r.retire(n)
		}
	}
	r.updateOwners()
}

func (r *ring) newNode(t target) *node {
	n := &node{
		target:  t,
		hash:    xxhash.Sum64String(t.name),
		client:  newClient(r.options.client(t)),
		errLost: fmt.Errorf("%w: ring node %s does not answer, and its keys are pinned to it", ErrNoOwner, t.name),
	}
	ctx, stop := context.WithCancel(r.ctx)
	if n.stopPings = stop; !r.Fixed {
		r.running.Go(func() { r.sendPings(ctx, n) })
	}
	return n
}

// retire stops the PINGs of a node that has left the ring. It closes the client when commands sent before have timed
// out.
func (r *ring) retire(n *node) {
	n.stopPings()
	r.retired = append(r.retired, n)
	time.AfterFunc(r.Timeout+time.Second, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.retired = slices.DeleteFunc(r.retired, func(one *node) bool { return one == n })
		_ = n.client.Close() // nobody waits for its answers any more
	})
}

// updateOwners chooses the nodes that own keys: all, if keys are pinned, else those that are not lost. The caller holds
// mu.
func (r *ring) updateOwners() {
	var nodes []*node
	for _, n := range r.nodes {
		if r.NodeLoss == Pin || n.missed.Load() < maxMissed {
			nodes = append(nodes, n)
		}
	}
	r.owners.Store(&nodes)
	for _, f := range r.onChange {
		f()
	}
}

var errNoNode = fmt.Errorf("%w: no node of the ring answers", ErrNoOwner)

func (r *ring) Owner(key []byte) (*goredis.Client, error) {
	n := r.nodeOf(key)
	switch {
	case n == nil:
		return nil, errNoNode
	case r.NodeLoss == Pin && n.missed.Load() >= maxMissed:
		return nil, n.errLost
	}
	return n.client, nil
}

// Rendezvous hashing (Thaler and Ravishankar, 1996): each node has a score for a key, and the node with the highest
// owns it, so a node that comes or goes moves only its own keys. The scores are those of go-redis's Ring, which weir
// used before.

// keyHash returns the hash of a Redis key: that of its hash tag, if it has one, so that keys of one tag stay together.
func keyHash(key []byte) uint64 {
	if _, rest, found := bytes.Cut(key, []byte("{")); found {
		if tag, _, closed := bytes.Cut(rest, []byte("}")); closed && len(tag) > 0 {
			key = tag
		}
	}
	return xxhash.Sum64(key)
}

// score returns the score of a node for a key: the hashes of its name and of the key, mixed by xorshift64*.
func score(node, key uint64) uint64 {
	x := node ^ key
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	return x * 2685821657736338717
}

// nodeOf returns the node that owns a key, nil if no node lives.
func (r *ring) nodeOf(key []byte) (owner *node) {
	hash, best := keyHash(key), uint64(0)
	for _, n := range *r.owners.Load() {
		if s := score(n.hash, hash); owner == nil || s > best {
			owner, best = n, s
		}
	}
	return owner
}

// Rendezvous returns the index of the node that owns a key while all nodes live.
func Rendezvous(nodes []string, key []byte) (owner int) {
	hash, best := keyHash(key), uint64(0)
	for i, name := range nodes {
		if s := score(xxhash.Sum64String(name), hash); i == 0 || s > best {
			owner, best = i, s
		}
	}
	return owner
}

// join adds the nodes of a list that the ring lacks: see [Servers.Join].
func (r *ring) join(list string) (names []string, err error) {
	targets, err := parseNodes(list)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range targets {
		names = append(names, t.name)
		if slices.ContainsFunc(r.nodes, func(n *node) bool { return n.name == t.name }) {
			continue
		}
		if first := r.nodes[0].target; !t.tls && t.password == "" {
			t.tls, t.user, t.password = first.tls, first.user, first.password
		}
		r.nodes = append(slices.Clone(r.nodes), r.newNode(t))
	}
	slices.Sort(names)
	return names, err
}

// byName returns the node with a name, alive or not; nil if the ring has none.
func (r *ring) byName(name string) *node { return r.find(func(n *node) bool { return n.name == name }) }

// find returns the first node that matches, alive or not; nil if none does.
func (r *ring) find(match func(*node) bool) *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := slices.IndexFunc(r.nodes, match); at >= 0 {
		return r.nodes[at]
	}
	return nil
}

// sendPings sends a node PINGs until it leaves the ring.
func (r *ring) sendPings(ctx context.Context, n *node) {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		r.ping(ctx, n)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// ping sends one PING: only a server that answers PONG can count. It logs a loss and a return at the same level.
func (r *ring) ping(ctx context.Context, n *node) {
	asking, cancel := context.WithTimeout(ctx, pingTimeout)
	err := n.client.Ping(asking).Err()
	cancel()
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		if n.missed.Swap(0) < maxMissed {
			return
		}
		r.Log.Warn("ring node is back", "node", n.name)
	case n.missed.Add(1) != maxMissed:
		return
	default:
		r.Log.Warn("ring node does not answer", "node", n.name, "on_node_loss", r.NodeLoss, "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return // the node has left meanwhile
	}
	r.updateOwners()
	if r.NodeLoss == Remap {
		r.losses.Add(1)
	}
}

func (r *ring) Servers(context.Context) ([]Server, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Server, len(r.nodes))
	for i, n := range r.nodes {
		all[i] = r.describe(n)
	}
	return all, nil
}

func (r *ring) describe(n *node) Server {
	return Server{Name: n.name, Client: n.client, Tag: probeTag(0), login: r.login.forTarget(n.target), LogsLoss: true}
}

func (r *ring) Close() error {
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, n := range slices.Concat(r.nodes, r.retired) {
		if failed := n.client.Close(); !errors.Is(failed, goredis.ErrClosed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// fileInterval is the interval at which the file of a ring's nodes is read.
const fileInterval = time.Second

// followFile sets the nodes whenever the file changes. An invalid file is logged once and changes nothing.
func (r *ring) followFile(list string) {
	ticker := time.NewTicker(fileInterval)
	defer ticker.Stop()
	var lastErr string
	for {
		select {
		case <-ticker.C:
		case <-r.ctx.Done():
			return
		}
		content, err := regular.ReadFile(r.URLFile)
		if err == nil && string(content) == list && lastErr == "" {
			continue
		}
		if err == nil {
			err = r.applyList(string(content))
		}
		switch {
		case err == nil:
			if lastErr != "" {
				r.Log.Warn("file of ring nodes is valid again", "file", r.URLFile)
			}
			list, lastErr = string(content), ""
		case err.Error() != lastErr:
			lastErr = err.Error()
			r.Log.Warn("file of ring nodes is invalid", "file", r.URLFile, "error", err, "effect", "the last nodes stay in use")
		}
	}
}

// applyList sets the nodes to those of a list.
func (r *ring) applyList(list string) error {
	targets, err := parseNodes(list)
	if err != nil {
		return err
	}
	before := r.names()
	r.setNodes(targets)
	if after := r.names(); !slices.Equal(before, after) {
		r.losses.Add(1)
		r.Log.Info("ring nodes changed", "before", before, "now", after)
	}
	return nil
}

// names returns the names of the nodes, in order.
func (r *ring) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		names = append(names, n.name)
	}
	slices.Sort(names)
	return names
}
