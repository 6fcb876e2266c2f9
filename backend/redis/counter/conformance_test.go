package counter

import (
	"flag"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/script"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var (
	conformanceSteps = flag.Int("steps", 4000, "random steps of the conformance suite, on each topology and by each way")
	conformanceSeed  = flag.Uint64("seed", 1, "seed of the conformance suite")
)

// types are all types of Redis.
var types = []redis.Type{redis.Single, redis.Sentinel, redis.Cluster, redis.Ring}

// start starts servers of a type, and returns how they are reached.
func start(t *testing.T, kind redis.Type, options ...redistest.Option) redis.Config {
	return redis.Config{URL: redistest.Types[kind.String()](t, options...)}
}

// opened is a store on a clock of its own.
func opened(t *testing.T, kind redis.Type, c redis.Config, now *atomic.Int64) *Store {
	t.Helper()
	return openedWith(t, kind, c, now, newScript())
}

// openedWith is opened for a version of the script.
func openedWith(t *testing.T, kind redis.Type, c redis.Config, now *atomic.Int64, code *redis.Script) *Store {
	t.Helper()
	c.Type, c.Timeout, c.Log = kind, 5*time.Second, slog.New(slog.DiscardHandler)
	config := Config{Redis: c}
	if now != nil {
		config.Now = func() string { return strconv.FormatInt(now.Load(), 10) }
	}
	s, err := open(config, code)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	redistest.Eventually(t, "the servers can be used", s.Health().Ready)
	return s
}

func TestConformance(t *testing.T) {
	for _, kind := range types {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := start(t, kind)
			eachWay(t, kind, c, "", func(t *testing.T, code func() *redis.Script) {
				conform(t, kind, c, code)
			})
		})
	}
}

// conform puts stores on the same servers to the suite.
func conform(t *testing.T, kind redis.Type, c redis.Config, code func() *redis.Script) {
	t.Helper()
	var round atomic.Int64
	backendtest.Run(t, func(t *testing.T) backendtest.Store {
		now := new(atomic.Int64)
		s := openedWith(t, kind, c, now, code())
		own := fmt.Appendf(nil, "%s/%d/", t.Name(), round.Add(1)) // the stores of a topology share its servers
		return backendtest.Store{
			Counter: apart{s, own},
			SetTime: func(at window.Instant) { now.Store(int64(at)) },
			Buckets: func(key []byte) int { return bucketsOf(t, s, append(own[:len(own):len(own)], key...), now.Load()) },
		}
	}, backendtest.Options{Steps: *conformanceSteps, Seed: *conformanceSeed, Patience: 5 * time.Second})
}

// bucketsOf is how many buckets a key holds, of all its limits on their finest level, and how many instants of logs.
func bucketsOf(t *testing.T, s *Store, key []byte, now int64) (n int) {
	t.Helper()
	name := string(script.AppendKey(nil, key))
	client, err := s.servers.Owner([]byte(name))
	if err != nil {
		t.Fatal(err)
	}
	fields, err := client.HGetAll(t.Context(), name).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range limitsOfTheSuite() {
		switch l.Algorithm {
		case descriptors.TokenBucket:
			n += int(min(1, script.Count(fields, &l, time.UnixMicro(now)).Hits))
		case descriptors.SlidingLog:
			log, err := s.inspectLog(t.Context(), name, &l, fields[script.HeaderField(&l)], window.Instant(now))
			if err != nil {
				t.Fatal(err)
			}
			n += len(log.Levels[0])
		default:
			n += len(script.Buckets(fields, &l, window.Instant(now))[0])
		}
	}
	return n
}

// limitsOfTheSuite are the limits that the suite draws from, each state once.
var limitsOfTheSuite = sync.OnceValue(func() (all []descriptors.Limit) {
	seen := make(map[descriptors.Limit]bool)
	for u := descriptors.Second; u <= descriptors.Week; u++ {
		for times := range uint32(4) {
			for _, p := range []time.Duration{0, 50 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour} {
				for _, a := range []descriptors.Algorithm{
					descriptors.SlidingWindow, descriptors.FixedWindow, descriptors.TokenBucket, descriptors.SlidingLog} {
					l, err := descriptors.NewLimit(1, u, 1+times, a, p)
					state := descriptors.Limit{Window: l.Window, Precision: l.Precision, Algorithm: a}
					if err == nil && !seen[state] {
						seen[state] = true
						all = append(all, l)
					}
				}
			}
		}
	}
	return all
})

func TestExactlyNAmongThreeStores(t *testing.T) {
	const n = 1000
	for _, kind := range types {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := start(t, kind)
			limits := []descriptors.Limit{
				backendtest.NewLimit(t, n, descriptors.Hour, 1, descriptors.SlidingWindow, 0),
				backendtest.NewLimit(t, 2*n, descriptors.Day, 1, descriptors.SlidingWindow, 0),
			}
			var admitted atomic.Int64
			var clients sync.WaitGroup
			stores := []*Store{opened(t, kind, c, nil), opened(t, kind, c, nil), opened(t, kind, c, nil)}
			for client := range 64 {
				s := stores[client%len(stores)]
				clients.Go(func() {
					out := make([]backend.Decision, 1)
					for range 60 {
						checks := []backend.Check{{Key: []byte("shared by all"), Limits: limits, Hits: 1}}
						if err := backend.DecideAll(t.Context(), s, checks, out); err != nil {
							t.Error(err)
							return
						}
						if out[0].Allowed {
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
