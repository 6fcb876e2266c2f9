package counter

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// opensAt opens a store that the test closes.
func opensAt(t *testing.T, c redis.Config) *Store {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	s, err := Open(Config{Redis: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestReplicasKnowHowManyTheyAre(t *testing.T) {
	for _, kind := range types {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := start(t, kind)
			c.Type = kind
			first, second := opensAt(t, c), opensAt(t, c)
			both := func(want int) func() error {
				return func() error {
					if a, b := first.Replicas(), second.Replicas(); a != want || b != want {
						return fmt.Errorf("they know of %d and %d, want %d", a, b, want)
					}
					return nil
				}
			}
			took := redistest.Eventually(t, "both know of two", both(2))
			third := opensAt(t, c)
			t.Logf("%v, and %v until they knew of a third one", took, redistest.Eventually(t, "and of a third one", both(3)))
			if err := third.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("%v until they knew that it had left", redistest.Eventually(t, "and that it has left", both(2)))
		})
	}
}

// A process that is killed tells nobody: its heartbeat grows old.
func TestAReplicaThatIsKilledIsForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client := server.Client()
	ctx := context.Background()
	now := client.Time(ctx).Val()
	for name, at := range map[string]time.Time{
		"alive": now.Add(beatLife - time.Second), "of another clock": now.Add(time.Hour), "killed": now.Add(-beatLife - time.Second), "dying": now.Add(2*time.Second - beatLife),
	} {
		client.HSet(ctx, replicasKey, name, at.UnixMilli())
	}
	client.HSet(ctx, replicasKey, "broken", "nonsense")
	s := opensAt(t, redis.Config{URL: server.Addr})
	redistest.Eventually(t, "what is told is counted", func() error {
		if n := s.Replicas(); n != 3 {
			return fmt.Errorf("%d replicas, want three: itself, one that lives and one that may", n)
		}
		return nil
	})
	redistest.Eventually(t, "the last heartbeat grows old", func() error {
		if n := s.Replicas(); n != 2 {
			return fmt.Errorf("%d replicas, want two", n)
		}
		return nil
	})
	if n := client.HLen(ctx, replicasKey).Val(); n != 2 {
		t.Errorf("%d heartbeats are kept, want the two of who lives", n)
	}
	if ttl := client.PTTL(ctx, replicasKey).Val(); ttl <= 0 || ttl > 4*beatLife {
		t.Errorf("the heartbeats live for %v, want a minute at most after the last process", ttl)
	}
}

// Else each replica would for a moment take the whole limit for its share.
func TestAServerThatForgotTheHeartbeatsDoesNotMakeReplicasFewer(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	first, second := opensAt(t, redis.Config{URL: server.Addr}), opensAt(t, redis.Config{URL: server.Addr})
	two := func() error {
		if a, b := first.Replicas(), second.Replicas(); a != 2 || b != 2 {
			return fmt.Errorf("they know of %d and %d, want 2", a, b)
		}
		return nil
	}
	redistest.Eventually(t, "both know of two", two)
	began := time.Now()
	if n := first.StatesSince(began); n != 1 {
		t.Errorf("%d states are known of a server that lost none, want 1", n)
	}
	for range 3 {
		server.Client().FlushAll(context.Background())
		for end := time.Now().Add(beatPause); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if err := two(); err != nil {
				t.Fatalf("after the heartbeats were flushed, %v", err)
			}
		}
	}
	redistest.Eventually(t, "the flushes are known", func() error {
		if n := first.StatesSince(began); n < 3 {
			return fmt.Errorf("a key may have had %d states; the server was flushed three times, heartbeats apart", n)
		}
		return nil
	})
}

func TestTheNumberOfReplicasStaysThroughAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := opensAt(t, redis.Config{URL: server.Addr})
	redistest.Eventually(t, "it knows of itself", func() error {
		if s.Replicas() != 1 {
			return fmt.Errorf("%d replicas", s.Replicas())
		}
		return nil
	})
	server.Kill()
	_, _ = decide(s, 50*time.Millisecond, "key")
	time.Sleep(beatPause + time.Second)
	if n := s.Replicas(); n != 1 {
		t.Errorf("in an outage %d replicas are known, want the one that was", n)
	}
}
