package redishistory

import (
	"flag"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

var (
	steps    = flag.Int("steps", 400, "random steps of the conformance suite, on each topology")
	seed     = flag.Uint64("seed", 1, "seed of the conformance suite")
	jobEvery = flag.Int("job-every", 10, "how many jobs of months there are to each that the conformance suite runs; 1 for all")
)

// clock is a store's, which also reads it in the background.
type clock struct{ at atomic.Pointer[time.Time] }

func newClock(at time.Time) *clock {
	c := new(clock)
	c.set(at)
	return c
}

func (c *clock) now() time.Time   { return *c.at.Load() }
func (c *clock) set(at time.Time) { c.at.Store(&at) }

// fleet is servers of a topology, and how they are reached.
type fleet struct {
	config  topology.Config
	servers func(t testing.TB) []*redistest.Server // those that take writes
}

// empty removes everything.
func (f fleet) empty(t testing.TB) {
	t.Helper()
	for _, s := range f.servers(t) {
		if err := s.Client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// client is that of the only server.
func (f fleet) client(t testing.TB) *goredis.Client {
	t.Helper()
	return f.servers(t)[0].Client()
}

// Servers are started once for the package. Tests that use them must not run beside each other; those that kill or
// configure a server have their own.
var (
	singles   = once(redistest.StartSingle)
	sentinels = once(redistest.StartSentinel)
	clusters  = once(redistest.StartCluster)
	nodes     = once(func(dir string, options ...redistest.Option) (ring nodesOfRing, err error) {
		return redistest.StartRing(dir, 4, options...)
	})
	closing sync.Mutex
	closers []func()
)

type nodesOfRing []*redistest.Server

func (n nodesOfRing) Close() {
	for _, s := range n {
		s.Close()
	}
}

// once starts servers for the first test that asks, and has TestMain close them.
func once[T interface{ Close() }](start func(string, ...redistest.Option) (T, error)) func(t testing.TB) T {
	get := sync.OnceValues(func() (servers T, err error) {
		dir, err := os.MkdirTemp("", "weir-")
		if err != nil {
			return servers, err
		}
		if servers, err = start(dir); err != nil {
			return servers, err
		}
		closing.Lock()
		defer closing.Unlock()
		closers = append(closers, func() {
			servers.Close()
			_ = os.RemoveAll(dir)
		})
		return servers, nil
	})
	return func(t testing.TB) T {
		t.Helper()
		servers, err := get()
		if err != nil {
			t.Fatal(err)
		}
		return servers
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range closers {
		end()
	}
	os.Exit(code)
}

func singleOf(server *redistest.Server) fleet {
	return fleet{topology.Config{URL: server.Addr}, func(testing.TB) []*redistest.Server { return []*redistest.Server{server} }}
}

func sentinelOf(set *redistest.SentinelSet) fleet {
	return fleet{topology.Config{Type: topology.Sentinel, URL: set.Master + "," + strings.Join(set.Addrs(), ",")},
		func(t testing.TB) []*redistest.Server { return []*redistest.Server{set.Primary(t)} }}
}

func clusterOf(set *redistest.ClusterSet) fleet {
	return fleet{topology.Config{Type: topology.Cluster, URL: strings.Join(set.Addrs(), ",")}, set.Primaries}
}

func ringOf(nodes ...*redistest.Server) fleet {
	var addrs []string
	for _, s := range nodes {
		addrs = append(addrs, s.Addr)
	}
	return fleet{topology.Config{Type: topology.Ring, URL: strings.Join(addrs, ",")},
		func(testing.TB) []*redistest.Server { return nodes }}
}

// single is the package's server, emptied.
func single(t testing.TB) fleet {
	t.Helper()
	f := singleOf(singles(t))
	f.empty(t)
	return f
}

// freshNodes are n nodes of the package, emptied.
func freshNodes(t testing.TB, n int) []*redistest.Server {
	t.Helper()
	all := nodes(t)
	ringOf(all...).empty(t)
	return all[:n]
}

// opened is a store on a fleet. A nil clock is the servers'.
func opened(t testing.TB, f fleet, clock func() time.Time, change func(*Config)) *Store {
	t.Helper()
	c := Config{Redis: f.config, Pace: 1}
	c.Redis.Timeout, c.Redis.Log = time.Minute, slog.New(slog.DiscardHandler)
	if clock != nil {
		c.Now = func() string { return strconv.FormatInt(clock().UnixMicro(), 10) }
	}
	if change != nil {
		change(&c)
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// In the short form a single server passes all of the suite, and the others what hangs on where partitions are.
func TestRedisPassesTheSuite(t *testing.T) {
	for name, reach := range map[string]func(testing.TB) fleet{
		"single":   single,
		"sentinel": func(t testing.TB) fleet { return sentinelOf(sentinels(t)) },
		"cluster":  func(t testing.TB) fleet { return clusterOf(clusters(t)) },
		"ring":     func(t testing.TB) fleet { return ringOf(freshNodes(t, 3)...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := reach(t)
			historytest.Run(t, func(t *testing.T, o historytest.Options) history.Store {
				f.empty(t)
				return opened(t, f, o.Now, func(c *Config) { c.Keep, c.Step = o.Keep, o.Step })
			}, historytest.Depth{Steps: *steps, Seed: *seed, JobEvery: *jobEvery, Routing: testing.Short() && name != "single"})
		})
	}
}
