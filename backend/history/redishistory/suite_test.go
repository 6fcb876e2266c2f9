package redishistory

import (
	"flag"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

var (
	steps = flag.Int("steps", 400, "random steps of the conformance suite, on each topology")
	seed  = flag.Uint64("seed", 1, "seed of the conformance suite")
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// fleet is servers, and how they are reached.
type fleet struct {
	*redistest.Set
	config topology.Config
}

// shared is the package's servers of a type, emptied. Tests that use them must not run beside each other; those that
// kill or configure a server have their own.
func shared(t testing.TB, kind topology.Type) fleet {
	t.Helper()
	set := redistest.Shared(t, string(kind))
	set.Flush(t)
	return fleet{set, topology.Config{Type: kind, URL: set.URL}}
}

// client is that of the only server.
func (f fleet) client() *goredis.Client { return f.Servers[0].Client() }

func singleOf(server *redistest.Server) fleet {
	return fleet{&redistest.Set{Servers: []*redistest.Server{server}}, topology.Config{URL: server.Addr}}
}

func ringOf(nodes ...*redistest.Server) fleet {
	var addrs []string
	for _, s := range nodes {
		addrs = append(addrs, s.Addr)
	}
	return fleet{&redistest.Set{Servers: nodes}, topology.Config{Type: topology.Ring, URL: strings.Join(addrs, ",")}}
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

// In the short form a single server passes all of the suite, and the others what hangs on where partitions are. With
// the race detector a single server and a ring do, whose stores have all the goroutines that the others' have.
func TestRedisPassesTheSuite(t *testing.T) {
	kinds, whole := []topology.Type{topology.Single, topology.Sentinel, topology.Cluster, topology.Ring}, topology.Single
	if process.Raced() {
		kinds, whole = []topology.Type{topology.Single, topology.Ring}, ""
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f := shared(t, kind)
			historytest.Run(t, func(t *testing.T, o historytest.Options) history.Store {
				f.Flush(t)
				return opened(t, f, o.Now, func(c *Config) { c.Retention, c.Step = o.Retention, o.Step })
			}, historytest.Depth{Steps: *steps, Seed: *seed, Routing: testing.Short() && kind != whole})
		})
	}
}
