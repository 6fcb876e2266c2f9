package redis

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

// cluster is a Redis Cluster. go-redis keeps the map of its slots; commands go to the clients of its nodes directly, so
// that it neither follows a redirect nor repeats anything.
type cluster struct {
	client *goredis.ClusterClient
	login  *login
	node   func(addr string) *goredis.Client
	ctx    context.Context
	stop   context.CancelFunc

	known    atomic.Bool // the map has been read once
	learning atomic.Bool

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	nodes   map[string]*goredis.Client // by address, as go-redis calls them and as they call themselves
	extra   []*goredis.Client          // those that go-redis does not close
}

// learnPause is how long after an attempt to learn the map the next one may follow.
const learnPause = 250 * time.Millisecond

func newCluster(url string, o *options) (topology, error) {
	seeds, err := parseCluster(url)
	if err != nil {
		return nil, err
	}
	c := &cluster{login: o.login.of(seeds[0]), nodes: make(map[string]*goredis.Client)}
	c.node = func(addr string) *goredis.Client {
		t := seeds[0]
		t.addr = addr
		return goredis.NewClient(o.client(t))
	}
	settings := o.cluster(seeds)
	settings.NewClient = c.newNode
	c.client = goredis.NewClusterClient(settings)
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// newNode is how go-redis makes the client of a node that it has found.
func (c *cluster) newNode(o *goredis.Options) *goredis.Client {
	// It has understood these as 0, and would now take that for its defaults.
	o.MinRetryBackoff, o.MaxRetryBackoff = never, never
	node := goredis.NewClient(o)
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.nodes, func(_ string, old *goredis.Client) bool { return isClosed(old) })
	c.nodes[o.Addr] = node
	if o.NodeAddress != "" {
		c.nodes[o.NodeAddress] = node
	}
	return node
}

var errNoPrimary = errors.New("no node of the cluster has slots")

var errUnknownCluster = errors.New("no server of the cluster has told yet who owns which key")

func (c *cluster) shard(key []byte) (*goredis.Client, error) {
	if !c.known.Load() {
		c.learn() // go-redis would ask now, and wait for it
		return nil, errUnknownCluster
	}
	return c.client.MasterForKey(context.Background(), string(key))
}

// learn reads the map in the background, if nobody does.
func (c *cluster) learn() {
	if !c.learning.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.running.Go(func() {
		if _, err := c.client.MasterForKey(c.ctx, string(probeKey(0))); err == nil {
			c.known.Store(true)
			return
		}
		select {
		case <-time.After(learnPause):
			c.learning.Store(false)
		case <-c.ctx.Done():
		}
	})
}

// at finds the node or makes a client for it: one that has no slots yet is in no map. A node calls itself by its port
// alone if it does not know by which address it is reached.
func (c *cluster) at(from *goredis.Client, addr string) (*goredis.Client, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("a node of the cluster names another one %q, which is no address: %w", addr, err)
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
	if node := c.nodes[addr]; node != nil && !isClosed(node) {
		return node, nil
	}
	node := c.node(addr)
	c.nodes[addr] = node
	c.extra = append(c.extra, node)
	return node, nil
}

// isClosed tells a client that go-redis has closed, a minute after its node left the cluster. go-redis looks for that
// before it looks whether the caller has gone, so nothing is sent.
func isClosed(client *goredis.Client) bool {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	return errors.Is(client.Ping(gone).Err(), goredis.ErrClosed)
}

func (c *cluster) reload() { c.client.ReloadState(context.Background()) }

// servers gives the primaries, each with a key in one of its slots.
func (c *cluster) servers(ctx context.Context) ([]server, error) {
	var mu sync.Mutex
	var primaries []server
	unknown := server{name: "a node of the cluster", login: c.login, rules: []string{"+cluster|slots", "+asking"}}
	err := c.client.ForEachMaster(ctx, func(_ context.Context, node *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		s := unknown
		s.name, s.client = node.Options().Addr, node
		primaries = append(primaries, s)
		return nil
	})
	if err == nil && len(primaries) == 0 {
		err = errNoPrimary
	}
	if err != nil {
		return nil, explain(unknown, "CLUSTER SLOTS", err)
	}
	c.known.Store(true)
	for i := range primaries {
		primaries[i].key = c.keyOf(ctx, primaries[i].client)
	}
	return primaries, nil
}

// keyOf tries keys until one is the node's. With n primaries it takes n tries on average.
func (c *cluster) keyOf(ctx context.Context, node *goredis.Client) []byte {
	for i := range 10_000 {
		key := probeKey(i)
		if owner, err := c.client.MasterForKey(ctx, string(key)); err == nil && owner == node {
			return key
		}
	}
	return nil
}

func (c *cluster) close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	err := c.client.Close() // without the lock: go-redis has its own while it calls newNode
	c.running.Wait()
	for _, node := range c.extra {
		if failed := node.Close(); !errors.Is(failed, goredis.ErrClosed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
