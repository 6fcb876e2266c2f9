package redishistory

import (
	"flag"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis"
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
	config  redis.Config
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

func single(t testing.TB, options ...redistest.Option) fleet {
	server := redistest.Single(t, options...)
	return fleet{redis.Config{URL: server.Addr},
		func(testing.TB) []*redistest.Server { return []*redistest.Server{server} }}
}

// fleets starts servers of each topology.
var fleets = map[redis.Type]func(t testing.TB) fleet{
	redis.Single: func(t testing.TB) fleet { return single(t) },
	redis.Sentinel: func(t testing.TB) fleet {
		set := redistest.Sentinel(t)
		return fleet{redis.Config{Type: redis.Sentinel, URL: set.Master + "," + strings.Join(set.Addrs(), ",")},
			func(t testing.TB) []*redistest.Server { return []*redistest.Server{set.Primary(t)} }}
	},
	redis.Cluster: func(t testing.TB) fleet {
		set := redistest.Cluster(t)
		return fleet{redis.Config{Type: redis.Cluster, URL: strings.Join(set.Addrs(), ",")}, set.Primaries}
	},
	redis.Ring: func(t testing.TB) fleet {
		nodes := redistest.Ring(t, 3)
		return ringOf(nodes...)
	},
}

func addresses(servers []*redistest.Server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return strings.Join(all, ",")
}

// opened is a store on a fleet. A nil clock is the servers'.
func opened(t testing.TB, f fleet, clock func() time.Time, change func(*Config)) *Store {
	t.Helper()
	c := Config{Redis: f.config, Pace: 1}
	c.Redis.Timeout, c.Redis.Log = 5*time.Second, slog.New(slog.NewTextHandler(io.Discard, nil))
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

func TestConformance(t *testing.T) {
	for kind, start := range fleets {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			f := start(t)
			historytest.Run(t, func(t *testing.T, o historytest.Options) history.Store {
				f.empty(t)
				return opened(t, f, o.Now, func(c *Config) { c.Keep, c.Step = o.Keep, o.Step })
			}, historytest.Depth{Steps: *steps, Seed: *seed, JobEvery: *jobEvery})
		})
	}
}
