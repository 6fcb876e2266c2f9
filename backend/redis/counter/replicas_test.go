package counter

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// hearts are those of processes that tell nothing by themselves.
func hearts(t *testing.T, c redis.Config, n int) (all []*heart) {
	t.Helper()
	for range n {
		all = append(all, &heart{store: storeAt(t, c), name: rand.Text(), seen: make(map[string]time.Time), stop: func() {}})
	}
	return all
}

// beats lets each heart beat once, and wants each to know of so many replicas.
func beats(t *testing.T, when string, all []*heart, want ...int) {
	t.Helper()
	for i, h := range all {
		n := 0
		redistest.Eventually(t, "the heart beats, which the product gives a second", func() (err error) {
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
	for _, kind := range typesBut(redis.Cluster) {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			all := hearts(t, start(t, kind), 3)
			beats(t, "at first", all, 1, 2, 3)
			beats(t, "then", all, 3, 3, 3)
			all[2].alive.Store(3)
			all[2].Close()
			// The first to hear of it forgets the third's field; the others wait until its last heartbeat is old.
			beats(t, "when the third has left", all[:1], 2)
		})
	}
}

// A process that is killed tells nobody: its heartbeat grows old.
func TestAReplicaThatIsKilledIsForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client, ctx := server.Client(), context.Background()
	now := client.Time(ctx).Val()
	for name, at := range map[string]time.Time{"alive": now, "of another clock": now.Add(time.Hour), "killed": now.Add(-beatLife - time.Second)} {
		client.HSet(ctx, replicasKey, name, at.UnixMilli())
	}
	client.HSet(ctx, replicasKey, "broken", "nonsense")
	all := hearts(t, redis.Config{URL: server.Addr}, 1)
	beats(t, "beside one that lives and three that do not", all, 2)
	if n := client.HLen(ctx, replicasKey).Val(); n != 2 {
		t.Errorf("%d heartbeats are kept, want the two of who lives", n)
	}
	if ttl := client.PTTL(ctx, replicasKey).Val(); ttl <= 0 || ttl > 4*beatLife {
		t.Errorf("the heartbeats live for %v, want a minute at most after the last process", ttl)
	}
	client.HSet(ctx, replicasKey, "alive", now.Add(-beatLife-time.Second).UnixMilli())
	beats(t, "when the last heartbeat of the other one has grown old", all, 1)
}

// Else each replica would for a moment take the whole limit for its share.
func TestAServerThatForgotTheHeartbeatsDoesNotMakeReplicasFewer(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	all := hearts(t, redis.Config{URL: server.Addr}, 2)
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
	if n := all[0].others(time.Now().Add(beatLife + time.Second)); n != 0 {
		t.Errorf("%d others are thought to live who have told nothing for long", n)
	}
}

func TestTheNumberOfReplicasStaysThroughAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := opened(t, redis.Config{URL: server.Addr, Timeout: time.Second}, nil)
	wait(t, "it knows of itself", func() bool { return s.Replicas() == 1 })
	server.Kill()
	wait(t, "that the server is away is known", func() bool { _ = decide(s, hurry, "key"); return s.heart.quiet() })
	time.Sleep(2 * time.Second) // heartbeats at the start are a second apart
	if n := s.Replicas(); n != 1 {
		t.Errorf("in an outage %d replicas are known, want the one that was", n)
	}
}
