package counter

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/incr"
	"github.com/weirproxy/weir/descriptors"
)

// ofRatelimit returns a key of envoyproxy/ratelimit on its way to a store.
func ofRatelimit(stem string) []byte { return append([]byte{0}, stem...) }

// openedMixed is a store of both kinds of keys, on a clock of its own; nil: the process's.
func openedMixed(t testing.TB, c redis.Config, now *atomic.Int64, keys incr.Keys) *Mixed {
	t.Helper()
	m, err := OpenMixed(configOf(c, now), keys)
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
