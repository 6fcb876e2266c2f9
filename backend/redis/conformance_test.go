package redis

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/redis/incr"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var (
	conformanceSteps = flag.Int("steps", 4000, "random steps of the conformance suite, on each fleet")
	conformanceSeed  = flag.Uint64("seed", 1, "seed of the conformance suite")
	every            = flag.Bool("every", false, "go over each type and release of Redis by each way, in place of some")
	walkSteps        = flag.Int("walk", 3000, "random steps beside the model, on each fleet; a tenth in the short form")
)

// The arithmetic is the script's own, which its package tries by each way: in the short form one fleet is put to it.
func TestConformance(t *testing.T) {
	t.Parallel()
	list := fleets(t)
	if testing.Short() {
		list = list[:1]
	}
	if !testing.Short() {
		t.Run("pair", func(t *testing.T) {
			t.Parallel()
			main, perSecond := single(t), single(t)
			// A pair chooses by all limits of a check, so looks at single ones, as the whole suite makes them, may go
			// elsewhere.
			conform(t, backendtest.RunRouting, func(t *testing.T, now *atomic.Int64) backend.Counter {
				return openedPair(t, now, main, perSecond)
			})
		})
	}
	for _, f := range list {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			c := f.reach(t)
			conform(t, backendtest.Run, func(t *testing.T, now *atomic.Int64) backend.Counter { return f.open(t, c, now) })
		})
	}
}

// suite is the whole suite of stores, or what of it is about the way to a server.
type suite func(*testing.T, func(*testing.T) backendtest.Store, backendtest.Options)

// conform puts stores to a suite. What a key may hold is the script's own, which is tried in its package.
func conform(t *testing.T, run suite, open func(t *testing.T, now *atomic.Int64) backend.Counter) {
	t.Helper()
	var round atomic.Int64
	run(t, func(t *testing.T) backendtest.Store {
		now := new(atomic.Int64)
		own := fmt.Appendf(nil, "%s/%d/", t.Name(), round.Add(1)) // the stores share servers
		return backendtest.Store{
			Counter: apart{open(t, now), own},
			SetTime: func(at window.Instant) { now.Store(int64(at)) },
			Buckets: func([]byte) int { return 0 },
		}
	}, backendtest.Options{Steps: *conformanceSteps, Seed: *conformanceSeed, Patience: 5 * time.Second})
}

// TestEachFleetAgreesStepForStep walks several stores with clocks of their own on the same servers. Their calls have up
// to 64 checks, of keys that lie on all of the servers. On other releases this has what the topologies ask of a server
// beside the script, too: greetings, probes, the map of a cluster.
func TestEachFleetAgreesStepForStep(t *testing.T) {
	t.Parallel()
	steps := *walkSteps
	if testing.Short() {
		steps /= 10
	}
	for _, f := range fleets(t) {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			c := f.reach(t)
			var players []backendtest.Player
			for range 4 {
				now := new(atomic.Int64)
				s := apart{f.open(t, c, now), []byte(t.Name() + "/")}
				players = append(players, func(h backendtest.History) ([]backend.Decision, error) {
					return play(t.Context(), s, func(at window.Instant) { now.Store(int64(at)) }, h)
				})
			}
			walks := backendtest.Walks{Steps: steps, Seed: *conformanceSeed, Keys: 16, Patience: 10 * time.Second}
			backendtest.Agree(t, walks, players...)
		})
	}
}

// play asks a store one call after the other.
func play(ctx context.Context, s backend.Counter, set func(window.Instant), h backendtest.History) ([]backend.Decision, error) {
	var decisions []backend.Decision
	for asks := range h.Calls() {
		set(asks[0].Now)
		checks, out := make([]backend.Check, len(asks)), make([]backend.Decision, len(asks))
		for i := range asks {
			checks[i] = asks[i].Check
		}
		if err := backend.DecideAll(ctx, s, checks, out); err != nil {
			return decisions, err
		}
		decisions = append(decisions, out...)
	}
	return decisions, nil
}

func TestPlainConformance(t *testing.T) {
	t.Parallel()
	for _, kind := range typesBut(topology.Single) {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := on(t, kind)
			var round atomic.Int64
			backendtest.RunPlain(t, func(t *testing.T) backendtest.Store {
				now := new(atomic.Int64)
				m := openedMixed(t, c, now, incr.Keys{Jitter: 300})
				own := ofRatelimit(fmt.Sprintf("%s/%d/", t.Name(), round.Add(1)))
				return backendtest.Store{
					Counter: apart{m, own},
					SetTime: func(at window.Instant) { now.Store(int64(at)) },
					Buckets: func([]byte) int { return 0 }, // one window at most
				}
			}, backendtest.Options{Steps: *conformanceSteps, Seed: *conformanceSeed, Patience: 5 * time.Second})
		})
	}
}

func TestExactlyNAmongThreeStores(t *testing.T) {
	t.Parallel()
	const n = 1000
	for _, kind := range typesBut(topology.Cluster) {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := on(t, kind)
			limits := []descriptors.Limit{
				backendtest.NewLimit(t, n, descriptors.Hour, 1, descriptors.SlidingWindow, 0),
				backendtest.NewLimit(t, 2*n, descriptors.Day, 1, descriptors.SlidingWindow, 0),
			}
			var admitted atomic.Int64
			var clients sync.WaitGroup
			stores := []*Store{opened(t, c, nil), opened(t, c, nil), opened(t, c, nil)}
			for client := range 64 {
				s := stores[client%len(stores)]
				clients.Go(func() {
					for range 30 {
						d := askOne(t, s, backend.Check{Key: []byte("shared by all"), Limits: limits, Hits: 1})
						if d.Allowed {
							admitted.Add(1)
						}
					}
				})
			}
			clients.Wait()
			if got := admitted.Load(); got != n {
				t.Errorf("%d were admitted under a limit of %d", got, n)
			}
		})
	}
}

// Operators see each counter of each kind of store, and list them.
func TestOperatorsSeeWhatIsCounted(t *testing.T) {
	t.Parallel()
	type view struct {
		counter interface {
			backend.Counter
			backend.Inspector
			backend.Lister
		}
		key func(i int) ([]byte, []descriptors.Limit)
	}
	mixed := func(t *testing.T, now *atomic.Int64) view {
		return view{openedMixed(t, single(t), now, incr.Keys{Jitter: 300}), func(i int) ([]byte, []descriptors.Limit) {
			if i%3 == 0 {
				return fmt.Appendf(nil, "%d", i), limitsPer(t, 500, descriptors.Minute)
			}
			return ofRatelimit(fmt.Sprintf("shop_user_%d_", i)), hourly(t, 500)
		}}
	}
	pair := func(t *testing.T, now *atomic.Int64) view {
		return view{openedPair(t, now, single(t), single(t)), func(i int) ([]byte, []descriptors.Limit) {
			unit := []descriptors.Unit{descriptors.Second, descriptors.Hour}[i%2]
			return fmt.Appendf(nil, "%d", i), limitsPer(t, 500, unit)
		}}
	}
	of := func(kind topology.Type) func(t *testing.T, now *atomic.Int64) view {
		return func(t *testing.T, now *atomic.Int64) view { return view{opened(t, start(t, kind), now), nil} }
	}
	lists := map[string]func(t *testing.T, now *atomic.Int64) view{"cluster": of(topology.Cluster), "mixed": mixed}
	inspects := map[string]func(t *testing.T, now *atomic.Int64) view{"single": of(topology.Single)}
	if !testing.Short() {
		lists["single"], lists["sentinel"], lists["ring"], lists["pair"] = of(topology.Single), of(topology.Sentinel), of(topology.Ring), pair
		inspects["cluster"], inspects["pair"] = of(topology.Cluster), pair
	}
	for name, open := range lists {
		t.Run("list, "+name, func(t *testing.T) {
			t.Parallel()
			now := new(atomic.Int64)
			v := open(t, now)
			backendtest.Listing(t, backendtest.Lists{Counter: v.counter, Inspector: v.counter, Lister: v.counter, Key: v.key,
				SetTime: func(at window.Instant) { now.Store(int64(at)) }})
		})
	}
	for name, open := range inspects {
		t.Run("inspect, "+name, func(t *testing.T) {
			t.Parallel()
			now := new(atomic.Int64)
			v := open(t, now)
			backendtest.Inspection(t, backendtest.Inspected{Counter: v.counter, Inspector: v.counter,
				SetTime: func(at window.Instant) { now.Store(int64(at)) }})
		})
	}
}
