package counter

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/incr"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// ofRatelimit returns a key of envoyproxy/ratelimit on its way to a store.
func ofRatelimit(stem string) []byte { return append([]byte{0}, stem...) }

// openedMixed is a store of both kinds of keys, on a clock of its own; nil: the process's.
func openedMixed(t testing.TB, c redis.Config, now *atomic.Int64, keys incr.Keys) *Mixed {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	config := Config{Redis: c}
	if now != nil {
		config.Now = func() string { return strconv.FormatInt(now.Load(), 10) }
	}
	m, err := OpenMixed(config, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	redistest.Eventually(t, "the servers can be used", m.InUse()[0].Health().Ready)
	return m
}

// hourly returns a limit of n an hour, as envoyproxy/ratelimit has it.
func hourly(t testing.TB, n uint64) []descriptors.Limit {
	t.Helper()
	return []descriptors.Limit{backendtest.NewLimit(t, n, descriptors.Hour, 1, descriptors.FixedWindow, 0)}
}

// ask decides one check.
func askOne(t testing.TB, s backend.Counter, c backend.Check) backend.Decision {
	t.Helper()
	var out [1]backend.Decision
	if err := backend.DecideAll(context.Background(), s, []backend.Check{c}, out[:]); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func TestPlainConformance(t *testing.T) {
	for _, kind := range types {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := start(t, kind)
			c.Type = kind
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
