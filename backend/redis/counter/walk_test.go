package counter

import (
	"context"
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/window"
)

var walkSteps = flag.Int("walk", 3_000, "random steps beside the model, on each topology and by each way")

func TestEachTopologyAgreesStepForStep(t *testing.T) {
	for _, kind := range types {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := start(t, kind)
			eachWay(t, kind, c, "", func(t *testing.T, code func() *redis.Script) {
				agree(t, kind, c, *walkSteps, code)
			})
		})
	}
}

// TestOtherReleasesAreCountedOn has what the topologies ask of a server beside the script: greetings, probes, the map
// of a cluster.
func TestOtherReleasesAreCountedOn(t *testing.T) {
	for _, release := range redistest.Releases(t) {
		for _, kind := range []redis.Type{redis.Single, redis.Cluster} {
			t.Run(release+", "+kind.String(), func(t *testing.T) {
				t.Parallel()
				c := start(t, kind, redistest.WithRelease(release))
				eachWay(t, kind, c, release, func(t *testing.T, code func() *redis.Script) {
					agree(t, kind, c, *walkSteps/5, code)
					conform(t, kind, c, code)
				})
			})
		}
	}
}

// agree walks several stores with clocks of their own on the same servers. Their calls have up to 64 checks, of keys
// that lie on all of the servers.
func agree(t *testing.T, kind redis.Type, c redis.Config, steps int, code func() *redis.Script) {
	t.Helper()
	var players []backendtest.Player
	for range 4 {
		now := new(atomic.Int64)
		s := openedWith(t, kind, c, now, code())
		players = append(players, func(h backendtest.History) ([]backend.Decision, error) {
			return play(t.Context(), apart{s, []byte(t.Name() + "/")}, func(at window.Instant) { now.Store(int64(at)) }, h)
		})
	}
	walks := backendtest.Walks{Steps: steps, Seed: *conformanceSeed, Keys: 16, Patience: 10 * time.Second}
	backendtest.Agree(t, walks, players...)
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
