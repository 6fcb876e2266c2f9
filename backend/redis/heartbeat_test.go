package redis

import (
	"context"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// heartbeats are those of processes that tell nothing by themselves.
func heartbeats(t *testing.T, c topology.Config, n int) (all []*heartbeat) {
	t.Helper()
	for range n {
		all = append(all, newHeartbeat(storeAt(t, c)))
	}
	return all
}

// beats lets each heartbeat beat once, and wants each to know of so many replicas.
func beats(t *testing.T, when string, all []*heartbeat, want ...int) {
	t.Helper()
	for i, h := range all {
		n := 0
		redistest.Eventually(t, "the heartbeat beats, which the product gives a second", func() (err error) {
			n, err = h.beat(t.Context())
			return err
		})
		if n != want[i] {
			t.Errorf("%s, number %d knows of %d replicas, want %d", when, i, n, want[i])
		}
	}
}

func TestReplicasKnowHowManyTheyAre(t *testing.T) {
	t.Parallel()
	for _, kind := range typesBut(topology.Cluster) {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			all := heartbeats(t, start(t, kind), 3)
			beats(t, "at first", all, 1, 2, 3)
			beats(t, "then", all, 3, 3, 3)
			all[2].alive.Store(3)
			all[2].end()
			for _, when := range []string{"when the third has left", "then"} {
				beats(t, when, all[:2], 2, 2)
			}
		})
	}
}

// A process that is killed tells nobody: its heartbeat grows old.
func TestAReplicaThatIsKilledIsForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client, ctx := server.Client(), context.Background()
	now := client.Time(ctx).Val()
	for name, at := range map[string]time.Time{
		"alive": now, "of another clock": now.Add(time.Hour), "killed": now.Add(-heartbeatLife - time.Second),
		"killed long ago": now.Add(-2*heartbeatLife - time.Second),
	} {
		client.HSet(ctx, replicasKey, name, at.UnixMilli())
	}
	client.HSet(ctx, replicasKey, "broken", "nonsense")
	all := heartbeats(t, topology.Config{URL: server.Addr}, 1)
	beats(t, "beside one that lives and four that do not", all, 2)
	if n := client.HLen(ctx, replicasKey).Val(); n != 3 {
		t.Errorf("%d heartbeats are kept, want the two of who lives, and that of who was killed just now, for the others to read", n)
	}
	if ttl := client.PTTL(ctx, replicasKey).Val(); ttl <= 0 || ttl > 4*heartbeatLife {
		t.Errorf("the heartbeats live for %v, want a minute at most after the last process", ttl)
	}
	client.HSet(ctx, replicasKey, "alive", now.Add(-heartbeatLife-time.Second).UnixMilli())
	beats(t, "when the last heartbeat of the other one has grown old", all, 1)
}

// Else each replica would for a moment take the whole limit for its share.
func TestAServerThatForgotTheHeartbeatsDoesNotMakeReplicasFewer(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	all := heartbeats(t, topology.Config{URL: server.Addr}, 2)
	began := time.Now()
	beats(t, "at first", all, 1, 2)
	beats(t, "then", all, 2, 2)
	if n := all[0].store.StatesSince(began); n != 1 {
		t.Errorf("%d states are known of a server that lost none, want 1", n)
	}
	for range 3 {
		server.Client().FlushAll(context.Background())
		beats(t, "after the heartbeats were flushed", all, 2, 2)
	}
	if n := all[0].store.StatesSince(began); n != 4 {
		t.Errorf("a key may have had %d states, want 4: the server was flushed three times, heartbeats apart", n)
	}
	if n := all[0].others(time.Now().Add(heartbeatLife + time.Second)); n != 0 {
		t.Errorf("%d others are thought to live who have told nothing for long", n)
	}
}

// Else a replica that starts with others, or hears again after an outage before they do, would take the whole limit for
// its share until its next heartbeat.
func TestOneHeartbeatIsNotEnoughToKnowThatOthersAreGone(t *testing.T) {
	t.Parallel()
	s := &Store{heartbeat: &heartbeat{}}
	h, now := s.heartbeat, time.Now()
	for _, step := range []struct {
		when  string
		after time.Duration
		found int
		alive int
		all   bool
	}{
		{"at the first heartbeat", 0, 1, 1, false},
		{"when another one tells", time.Second, 2, 2, false},
		{"a moment before all have told", heartbeatPause - 1, 1, 2, false},
		{"when all have told", heartbeatPause, 3, 3, true},
		{"when one has left", heartbeatPause, 2, 2, true},
	} {
		h.learn(step.found, now.Add(step.after))
		if alive, all := s.Replicas(); alive != step.alive || all != step.all {
			t.Errorf("%s %d are known (all: %v), want %d (%v)", step.when, alive, all, step.alive, step.all)
		}
	}
	h.since = time.Time{} // as an outage has it
	h.learn(1, now.Add(time.Hour))
	if alive, _ := s.Replicas(); alive != 2 {
		t.Errorf("the first heartbeat after an outage leaves %d replicas, want the 2 from before: the other may not have told yet", alive)
	}
	h.learn(1, now.Add(time.Hour+heartbeatPause))
	if alive, _ := s.Replicas(); alive != 1 {
		t.Errorf("%d replicas are known, want one: no other has told for as long as each does", alive)
	}
}
