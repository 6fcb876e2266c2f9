package memcached

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var (
	conformanceSteps = flag.Int("steps", 2000, "random steps of the conformance suite, on each list of servers")
	conformanceSeed  = flag.Uint64("seed", 1, "seed of the conformance suite")
)

func TestConformance(t *testing.T)      { conform(t, backendtest.Run, "") }
func TestPlainConformance(t *testing.T) { conform(t, backendtest.RunPlain, "\x00") }

// conform puts stores on one server and on three to a suite, each with keys of its own that begin with a mark.
func conform(t *testing.T, run func(*testing.T, func(*testing.T) backendtest.Store, backendtest.Options), mark string) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " servers"), func(t *testing.T) {
			t.Parallel()
			var round atomic.Int64
			addrs := memcachedtest.StartAll(t, n)
			run(t, func(t *testing.T) backendtest.Store {
				now := new(atomic.Int64)
				own := fmt.Sprintf("%s%d_", mark, round.Add(1))
				s := opened(t, Config{Servers: addrs, skew: -1, now: func() time.Time { return time.UnixMicro(now.Load()) }})
				return backendtest.Store{
					Counter: backendtest.Apart{Counter: s, Own: own},
					SetTime: func(at window.Instant) { now.Store(int64(at)) },
					Buckets: func(key []byte, limits []descriptors.Limit) int {
						return backendtest.Held(readStates(t, s, append([]byte(own), key...)), limits)
					},
				}
			}, backendtest.Options{Steps: *conformanceSteps, Seed: *conformanceSeed, Patience: 5 * time.Second})
		})
	}
}

// opened opens a store that is patient, unless told otherwise, and lasts until its test ends.
func opened(t testing.TB, c Config) *Store {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	c.Connections = max(c.Connections, 2)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	s := Open(c)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// readStates reads what is held of a key.
func readStates(t testing.TB, s *Store, key []byte) window.States {
	t.Helper()
	var e entry
	_, at := (*s.servers.Load()).locateWeir(nil, key, "")
	if err := s.readAt(t.Context(), at, e.read); err != nil {
		t.Fatal(err)
	}
	return e.states
}

func TestInspectionPassesTheSuite(t *testing.T) {
	t.Parallel()
	now := new(atomic.Int64)
	s := opened(t, Config{Servers: memcachedtest.StartAll(t, 1), skew: -1, now: func() time.Time { return time.UnixMicro(now.Load()) }})
	backendtest.Inspection(t, s, func(at window.Instant) { now.Store(int64(at)) })
}
