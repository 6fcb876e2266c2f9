package redis

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var (
	conformanceSteps = flag.Int("steps", 3000, "random steps of the conformance suite, on each fleet")
	conformanceSeed  = flag.Uint64("seed", 1, "seed of the conformance suite")
	every            = flag.Bool("every", false, "put each type and release of Redis, by each way, to the whole suite")
)

// The arithmetic is the script's own, which its package tries by each way. Here is what the way to a server could
// break; on other releases that has what the topologies ask of a server beside the script, too: greetings, probes, the
// map of a cluster.
func TestConformance(t *testing.T) {
	t.Parallel()
	run := backendtest.RunRouting
	if *every {
		run = backendtest.Run
	}
	for _, f := range fleets(t) {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			c := f.reach(t)
			conform(t, run, func(t *testing.T, now *atomic.Int64) backend.Counter { return f.open(t, c, now) })
		})
	}
	t.Run("pair", func(t *testing.T) {
		t.Parallel()
		main, perSecond := start(t, topology.Single), start(t, topology.Single)
		// A pair chooses by all limits of a check, so looks at single ones, as the whole suite makes them, may go
		// elsewhere.
		conform(t, backendtest.RunRouting, func(t *testing.T, now *atomic.Int64) backend.Counter {
			return openedPair(t, now, main, perSecond)
		})
	})
}

func TestPlainConformance(t *testing.T) {
	t.Parallel()
	c := on(t, topology.Single)
	conform(t, backendtest.RunPlain, func(t *testing.T, now *atomic.Int64) backend.Counter {
		return openedMixed(t, c, now)
	})
}

// suite is the whole suite of stores, or what of it is about the way to a server.
type suite func(*testing.T, func(*testing.T) backendtest.Store, backendtest.Options)

// conform puts stores to a suite. What a key may hold is the script's own, which is tried in its package.
func conform(t *testing.T, run suite, open func(t *testing.T, now *atomic.Int64) backend.Counter) {
	t.Helper()
	var round atomic.Int64
	run(t, func(t *testing.T) backendtest.Store {
		now := new(atomic.Int64)
		own := fmt.Sprintf("%s/%d/", t.Name(), round.Add(1)) // the stores share servers
		s := open(t, now)
		if _, mixed := s.(byFormat); mixed {
			own = string(ofRatelimit(own))
		}
		return backendtest.Store{
			Counter: backendtest.Apart{Counter: s, Own: own},
			SetTime: func(at window.Instant) { now.Store(int64(at)) },
			Buckets: func([]byte, []descriptors.Limit) int { return 0 },
		}
	}, backendtest.Options{Steps: *conformanceSteps, Seed: *conformanceSeed, Patience: 5 * time.Second})
}

func TestThreeStoresAdmitExactlyTheLimit(t *testing.T) {
	t.Parallel()
	const n = 1000
	for _, kind := range typesBut(topology.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := on(t, kind)
			limits := []descriptors.Limit{
				backendtest.NewLimit(t, n, descriptors.Hour, 1, descriptors.SlidingWindow, 0),
				backendtest.NewLimit(t, 2*n, descriptors.Day, 1, descriptors.SlidingWindow, 0),
			}
			if lost := backendtest.ExactlyN(t, 1, n, limits, opened(t, c, nil), opened(t, c, nil), opened(t, c, nil)); lost > 0 {
				t.Errorf("%d checks had no answer", lost)
			}
		})
	}
}

func TestInspectionPassesTheSuite(t *testing.T) {
	t.Parallel()
	now := new(atomic.Int64)
	s := opened(t, start(t, topology.Single), now)
	backendtest.Inspection(t, s, func(at window.Instant) { now.Store(int64(at)) })
}
