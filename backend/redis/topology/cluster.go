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

func newCluster(url string, o *options) (Topology, error) {
	seeds, err := parseCluster(url)
	if err != nil {
		return nil, err
	}
	c := &cluster{login: o.login.of(seeds[0]), nodes: make(map[string]*goredis.Client)}
	c.node = func(addr string) *goredis.Client {
		t := seeds[0]
		t.addr = addr
		return newClient(o.client(t))
	}
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
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.nodes, func(_ string, old *goredis.Client) bool { return Left(old) })
	c.nodes[o.Addr] = node
	if o.NodeAddress != "" {
		c.nodes[o.NodeAddress] = node
	}
	return node
}

var errNoPrimary = errors.New("no node of the cluster has slots")

// ErrUnknownCluster is the error of Owner until a cluster has told which of its servers owns which key.
var ErrUnknownCluster error = noOwner("no server of the cluster has answered yet which of them owns which key")

func (c *cluster) Owner(key []byte) (*goredis.Client, error) {
	if !c.known.Load() {
		c.learn() // go-redis would ask now, and wait for it
		return nil, ErrUnknownCluster
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
		if _, err := c.client.MasterForKey(c.ctx, "{"+probeTag(0)+"}"); err == nil {
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

// At returns the client of a node, and makes one for a node without slots, which is in no map. A node that does not
// know its address names itself by its port alone.
func (c *cluster) At(from *goredis.Client, addr string) (*goredis.Client, error) {
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
	if node := c.nodes[addr]; node != nil && !Left(node) {
		return node, nil
	}
	node := c.node(addr)
	c.nodes[addr] = node
	c.extra = append(c.extra, node)
	return node, nil
}

func (c *cluster) Reload() { c.client.ReloadState(context.Background()) }

// describe describes a server of the cluster.
func (c *cluster) describe(name string, client *goredis.Client) Server {
	return Server{Name: name, Client: client, login: c.login, rights: []string{"+cluster|slots", "+asking"}}
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
	c.known.Store(true)
	for i := range primaries {
		primaries[i].Tag = c.tagOf(ctx, primaries[i].Client)
	}
	return primaries, nil
}

// tagOf tries hash tags until one is the node's. With n primaries it takes n tries on average.
func (c *cluster) tagOf(ctx context.Context, node *goredis.Client) string {
	for i := range 10_000 {
		tag := probeTag(i)
		if owner, err := c.client.MasterForKey(ctx, "{"+tag+"}"); err == nil && owner == node {
			return tag
		}
	}
	return ""
}

func (c *cluster) Close() error {
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
