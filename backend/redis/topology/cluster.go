package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// cluster is a Redis Cluster. go-redis holds the map of slots; commands go to the clients of single nodes, which never
// repeat one.
type cluster struct {
	*options
	client   *goredis.ClusterClient
	template target // has the credentials and TLS setting of all nodes
	ctx      context.Context
	stop     context.CancelFunc

	logOnce    sync.Once
	mapRead    atomic.Bool // the map has been read at least once
	refreshing atomic.Bool

	mu       sync.Mutex
	closed   bool
	running  sync.WaitGroup
	nodes    map[string]*goredis.Client // by address, as go-redis calls them and as they call themselves
	unmapped []*goredis.Client          // clients of nodes that no map has named, which go-redis does not close
}

// refreshPause is the least time between attempts to read the map.
const refreshPause = 250 * time.Millisecond

func newCluster(url string, o *options) (Topology, error) {
	seeds, err := parseCluster(url)
	if err != nil {
		return nil, err
	}
	c := &cluster{options: o, template: seeds[0], nodes: make(map[string]*goredis.Client)}
	settings := o.cluster(seeds)
	settings.NewClient = c.newNode
	c.client = goredis.NewClusterClient(settings)
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// newNode makes the client of a node that go-redis has found.
func (c *cluster) newNode(o *goredis.Options) *goredis.Client {
	o.MinRetryBackoff, o.MaxRetryBackoff = disabled, disabled
	node := newClient(o)
	node.AddHook(mapHook{cluster: c, addr: o.Addr})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[o.Addr] = node
	if o.NodeAddress != "" {
		c.nodes[o.NodeAddress] = node
	}
	return node
}

// maxNodes is how many nodes a cluster may have: the most that the Redis documentation recommends.
const maxNodes = 1000

// mapHook validates maps of slots before go-redis makes a client for each node of them.
type mapHook struct {
	dialHook
	cluster *cluster
	addr    string
}

// ProcessHook implements go-redis's hook. It waits after a map that it refuses, as go-redis asks for the next one at
// once.
func (m mapHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		err := next(ctx, cmd)
		if slots, ok := cmd.(*goredis.ClusterSlotsCmd); ok && err == nil {
			if err = m.cluster.validate(m.addr, slots.Val()); err != nil {
				select {
				case <-time.After(refreshPause):
				case <-ctx.Done():
				case <-m.cluster.ctx.Done():
				}
			}
		}
		return err
	}
}

// validate refuses a map that names too many nodes, counted alone or together with those that left within the last
// minute.
func (c *cluster) validate(from string, slots []goredis.ClusterSlot) error {
	named := make(map[string]bool)
	for _, s := range slots {
		for _, n := range s.Nodes {
			named[n.Addr] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.nodes, func(_ string, old *goredis.Client) bool { return Closed(old) })
	total := len(c.nodes) - len(c.unmapped)
	for addr := range named {
		if c.nodes[addr] == nil {
			total++
		}
	}
	if len(named) <= maxNodes && total <= 4*maxNodes { // a node may have two addresses
		return nil
	}
	err := fmt.Errorf("%s names %d nodes, %d with those that have just left: more than the %d that a cluster may have",
		from, len(named), total, maxNodes)
	c.logOnce.Do(func() {
		c.Log.Error("unusable slot map of a cluster", "error", err, "effect", "the last map stays in use",
			"remedy", "see what listens at that address; spread the keys over a cluster of fewer nodes")
	})
	return err
}

var errNoPrimary = errors.New("no node of the cluster has slots")

// ErrUnknownCluster is the error of Owner until the map of slots is known.
var ErrUnknownCluster = fmt.Errorf("%w: no server of the cluster has answered yet which one owns which key", ErrNoOwner)

func (c *cluster) Owner(key []byte) (*goredis.Client, error) {
	if !c.mapRead.Load() {
		c.refresh() // go-redis would ask now, and wait for it
		return nil, ErrUnknownCluster
	}
	return c.client.MasterForKey(context.Background(), string(key))
}

// refresh reads the map in the background, unless a read is running.
func (c *cluster) refresh() {
	if !c.refreshing.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.running.Go(func() {
		if _, err := c.client.MasterForKey(c.ctx, "{"+probeTag(0)+"}"); err == nil {
			c.mapRead.Store(true)
			return
		}
		select {
		case <-time.After(refreshPause):
			c.refreshing.Store(false)
		case <-c.ctx.Done():
		}
	})
}

// clientAt returns the client of a node that the reply of another node, from, names as addr. The map need not have the
// node. A node that does not know its own address names a port alone, on the host of from.
func (c *cluster) clientAt(from *goredis.Client, addr string) (*goredis.Client, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("a node of the cluster names another one %q, which is not an address: %w", addr, err)
	}
	if host == "" {
		if host, _, err = net.SplitHostPort(from.Options().Addr); err != nil {
			return nil, fmt.Errorf("a node of the cluster names another one %q: %w", addr, err)
		}
		addr = net.JoinHostPort(host, port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, goredis.ErrClosed
	}
	if node := c.nodes[addr]; node != nil && !Closed(node) {
		return node, nil
	}
	target := c.template
	target.addr = addr
	node := newClient(c.options.client(target))
	c.nodes[addr] = node
	c.unmapped = append(c.unmapped, node)
	return node, nil
}

// reload reads the map of slots in the background, at most five times a second.
func (c *cluster) reload() { c.client.ReloadState(context.Background()) }

func (c *cluster) describe(name string, client *goredis.Client) Server {
	return Server{Name: name, Client: client, login: c.login.forTarget(c.template)}
}

// Servers lists the primaries, each with a hash tag in one of its slots.
func (c *cluster) Servers(ctx context.Context) ([]Server, error) {
	var mu sync.Mutex
	var primaries []Server
	err := c.client.ForEachMaster(ctx, func(_ context.Context, node *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		primaries = append(primaries, c.describe(node.Options().Addr, node))
		return nil
	})
	if err == nil && len(primaries) == 0 {
		err = errNoPrimary
	}
	if err != nil {
		return nil, err
	}
	c.mapRead.Store(true)
	return c.withTags(ctx, primaries), nil
}

// withTags gives each server a hash tag in one of its slots. With n servers it takes a few times n tries.
func (c *cluster) withTags(ctx context.Context, primaries []Server) []Server {
	without := make(map[*goredis.Client]*Server)
	for i := range primaries {
		without[primaries[i].Client] = &primaries[i]
	}
	for i := 0; i < 10_000 && len(without) > 0; i++ {
		tag := probeTag(i)
		if owner, err := c.client.MasterForKey(ctx, "{"+tag+"}"); err == nil && without[owner] != nil {
			without[owner].Tag = tag
			delete(without, owner)
		}
	}
	return primaries
}

func (c *cluster) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	err := c.client.Close() // without the lock: go-redis holds its own lock while it calls newNode
	c.running.Wait()
	for _, node := range c.unmapped {
		if failed := node.Close(); !errors.Is(failed, goredis.ErrClosed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
