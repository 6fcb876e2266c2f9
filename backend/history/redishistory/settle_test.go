package redishistory

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// TestSettledMeansThatTheReplicasHaveIt: a writer may end then, and any failover finds its batches.
func TestSettledMeansThatTheReplicasHaveIt(t *testing.T) {
	set := redistest.Sentinel(t)
	url := set.Master + "," + strings.Join(set.Addrs(), ",")
	s := opened(t, fleet{config: redis.Config{Type: redis.Sentinel, URL: url}}, fixed(start), nil)
	a := newAuthor(s, "ann", 3)
	primary := set.Await(t)
	replica := set.Nodes[0]
	if replica == primary {
		replica = set.Nodes[1]
	}
	settle := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return s.Settle(ctx)
	}
	for n := range 3 {
		if err := a.land(t.Context(), start.Unix()/60); err != nil {
			t.Fatal(err)
		}
		if err := settle(time.Minute); err != nil {
			t.Fatalf("with a replica that follows: %v", err)
		}
		if got := replica.Client().HGet(t.Context(), writersKey(a.p), "ann").Val(); !strings.HasPrefix(got, string(rune('1'+n))+" ") {
			t.Errorf("settled, and the replica has the position %q, want batch %d", got, n+1)
		}
	}
	replica.Stop()
	if err := a.land(t.Context(), start.Unix()/60); err != nil {
		t.Fatal(err)
	}
	if err := settle(2 * time.Second); err == nil || !strings.Contains(err.Error(), "has a replica at offset") {
		t.Errorf("with a replica that hangs: %v, want an error that tells how far it is", err)
	}
	if err := primary.Client().Do(t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	if err := settle(2 * time.Second); err == nil || !strings.Contains(err.Error(), "has lost its replicas") {
		t.Errorf("with a replica that has gone: %v, want an error that says so", err)
	}
	replica.Cont()
	if err := settle(time.Minute); err != nil {
		t.Errorf("with a replica that is back: %v", err)
	}
}

func TestWhereNothingCanFailOverNothingIsWaitedFor(t *testing.T) {
	for name, f := range map[string]fleet{"single": single(t), "ring": ringOf(redistest.Ring(t, 2)...)} {
		s := opened(t, f, fixed(start), nil)
		if err := newAuthor(s, "ann", 1).land(t.Context(), start.Unix()/60); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAServerThatIsAwayIsNotSettled(t *testing.T) {
	f := single(t)
	s := opened(t, f, fixed(start), impatient)
	f.servers(t)[0].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Settle(ctx); err == nil {
		t.Error("a server that is away has settled: want an error, as nobody knows what it comes back with")
	}
}

func TestAMissingRightToAskIsNotWaitedFor(t *testing.T) {
	granted := []string{"+ping", "+time"}
	for _, rule := range rulesFor(t) {
		if rule != "+info" {
			granted = append(granted, rule)
		}
	}
	server := redistest.Single(t, redistest.WithACL("weir", "secret", granted...))
	s := opened(t, fleet{config: redis.Config{URL: server.Addr, Auth: "weir:secret"}}, fixed(start), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Settle(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("without the right to INFO: %v, want the server's own error at once", err)
	}
}

func TestAWriterWasHeardOfWhenItsPositionSaysSoWhateverWasRefused(t *testing.T) {
	for position, want := range map[string]int64{
		"12 1790000000": 1790000000, "12 42 1790000000": 1790000000, "12 99999999999999999999 1790000000": 1790000000, "12": 0, "": 0, "12 x": 0,
	} {
		if at, ok := heard(position); ok != (want > 0) || ok && at != want {
			t.Errorf("the writer at %q was heard of at %d (%v), want %d: one that lives must not be forgotten", position, at, ok, want)
		}
	}
}
