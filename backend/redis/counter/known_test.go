package counter

import (
	"fmt"
	"maps"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// awaitKnown waits until the servers are known so: each by its name.
func awaitKnown(t *testing.T, s *Store, why string, want map[string]redis.State) {
	t.Helper()
	redistest.Eventually(t, why, func() error {
		if got := s.Known(); !maps.Equal(got, want) {
			return fmt.Errorf("known is %v, want %v", got, want)
		}
		return nil
	})
}

func TestAServerThatWasNeverAskedIsKnown(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Kill()
	s, _ := told(t, redis.Config{URL: server.Addr})
	is := func(state redis.State) map[string]redis.State { return map[string]redis.State{server.Addr: state} }
	awaitKnown(t, s, "a server that has not answered yet is away", is(redis.Away))
	server.Restart(t)
	awaitKnown(t, s, "it has answered a probe", is(redis.Up))
	server.Kill()
	_ = countHits(t, s, 1) // who asks shows it
	awaitKnown(t, s, "it has gone", is(redis.Away))
	server.Restart(t)
	awaitKnown(t, s, "it is back, though nobody asks", is(redis.Up))
	if err := server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_ = countHits(t, s, 1)
	awaitKnown(t, s, "it answers, and takes no writes", is(redis.Failing))
}

func TestANodeOfARingThatNobodyAsksIsKnownToLeave(t *testing.T) {
	t.Parallel()
	a, b, c := redistest.Single(t), redistest.Single(t), redistest.Single(t)
	s, _ := told(t, redis.Config{Type: redis.Ring, URL: a.Addr + "," + b.Addr + "," + c.Addr})
	awaitKnown(t, s, "all live", map[string]redis.State{a.Addr: redis.Up, b.Addr: redis.Up, c.Addr: redis.Up})
	b.Kill()
	awaitKnown(t, s, "one has left, and no check was asked", map[string]redis.State{a.Addr: redis.Up, b.Addr: redis.Away, c.Addr: redis.Up})
	b.Restart(t)
	awaitKnown(t, s, "it is back", map[string]redis.State{a.Addr: redis.Up, b.Addr: redis.Up, c.Addr: redis.Up})
}

func TestThePrimariesOfAClusterAreKnown(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t)
	s, _ := told(t, redis.Config{Type: redis.Cluster, URL: set.Addrs()[0]})
	want := make(map[string]redis.State)
	for _, primary := range set.Primaries(t) {
		want[primary.Addr] = redis.Up
	}
	awaitKnown(t, s, "all primaries are up", want)
	if err := countHits(t, s, 50); err != nil {
		t.Fatal(err)
	}
	awaitKnown(t, s, "none is counted twice", want)
	for _, node := range set.Nodes {
		node.Kill()
	}
	for name := range want {
		want[name] = redis.Away
	}
	_ = countHits(t, s, 50)
	awaitKnown(t, s, "all have gone", want)
}

func TestAClusterThatNeverAnsweredIsAway(t *testing.T) {
	t.Parallel()
	s, _ := told(t, redis.Config{Type: redis.Cluster, URL: "127.0.0.1:1"})
	awaitKnown(t, s, "nobody knows its servers", map[string]redis.State{"the cluster": redis.Away})
}

func TestThePrimaryOfSentinelsIsOneServer(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t)
	s, _ := told(t, redis.Config{Type: redis.Sentinel, URL: set.Master + "," + set.Sentinels[0].Addr})
	name := fmt.Sprintf("%s (sentinels %s)", set.Master, set.Sentinels[0].Addr)
	awaitKnown(t, s, "the primary is up", map[string]redis.State{name: redis.Up})
	if err := countHits(t, s, 1); err != nil {
		t.Fatal(err)
	}
	awaitKnown(t, s, "it is not counted twice", map[string]redis.State{name: redis.Up})
}
