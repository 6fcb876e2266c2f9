package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// countHits counts one hit of each of n keys.
func countHits(t *testing.T, s *Store, n int) (err error) {
	for i := range n {
		check := backend.Check{Key: fmt.Appendf(nil, "4:shop4:user%d", i), Limits: hourly(t, 1_000_000), Hits: 1}
		failed := backend.DecideAll(t.Context(), s, []backend.Check{check}, make([]backend.Decision, 1))
		err = errors.Join(err, failed)
	}
	return err
}

// eachIs is what is known of servers that are all in one state, by their names.
func eachIs(state backend.ServerState, servers ...*redistest.Server) map[string]backend.ServerState {
	states := make(map[string]backend.ServerState)
	for _, s := range servers {
		states[s.Addr] = state
	}
	return states
}

// awaitKnown waits until the servers are known so: each by its name.
func awaitKnown(t *testing.T, s *Store, why string, want map[string]backend.ServerState) {
	t.Helper()
	changed := make(chan struct{}, 1)
	s.Notify(changed)
	for {
		got := s.Servers()
		if maps.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-time.After(ample):
			t.Fatalf("%s: known is %v, want %v, and no change is told", why, got, want)
		}
	}
}

func TestStoreIsReadyOnceAServerCounts(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	s.Kill()
	store, log := told(t, topology.Config{URL: s.Addr})
	awaitKnown(t, store, "a server that has not answered yet is away", eachIs(backend.ServerAway, s))
	process.Eventually(t, "that the server is away is known", func() error {
		if err := store.ProbeErr(); err == nil || !strings.Contains(err.Error(), s.Addr) {
			return fmt.Errorf("it is ready: %w", err)
		}
		return nil
	})
	s.Restart(t)
	process.Eventually(t, "the server is found", store.ProbeErr)
	awaitKnown(t, store, "it has answered a probe", eachIs(backend.ServerUp, s))
	process.Eventually(t, "it is logged", func() error { return log.Contains(`msg="Redis is ready" servers=1`) })
	if n := strings.Count(log.String(), "redis server does not answer"); n != 1 {
		t.Errorf("that it was away was logged %d times, want once:\n%s", n, log)
	}
	s.Kill()
	if err := store.Await(t.Context()); err != nil {
		t.Errorf("a server that goes away later makes it unready: %v; the failure policy answers then", err)
	}
	_ = countHits(t, store, 1) // who asks shows it
	awaitKnown(t, store, "it has gone", eachIs(backend.ServerAway, s))
	s.Restart(t)
	awaitKnown(t, store, "it is back, though nobody asks", eachIs(backend.ServerUp, s))
}

func TestRingIsReadyWithoutANode(t *testing.T) {
	t.Parallel()
	node, other := redistest.Single(t), redistest.Single(t)
	other.Kill()
	store, log := told(t, topology.Config{Type: topology.Ring, URL: node.Addr + "," + other.Addr})
	process.Eventually(t, "the node that is well suffices", store.ProbeErr)
	process.Eventually(t, "it is logged", func() error { return log.Contains(`msg="Redis is ready" servers=1`) })
	process.Eventually(t, "the ring tells of the other one", func() error {
		return log.Contains(`msg="ring node does not answer" node=` + other.Addr)
	})
	if strings.Contains(log.String(), "redis server does not answer") {
		t.Errorf("a loss is told twice:\n%s", log)
	}
	one := map[string]backend.ServerState{node.Addr: backend.ServerUp, other.Addr: backend.ServerAway}
	awaitKnown(t, store, "it is away", one)
	other.Restart(t)
	awaitKnown(t, store, "it has come", eachIs(backend.ServerUp, node, other))
	other.Kill()
	awaitKnown(t, store, "it has left, and no check was asked", one)
}

func TestClusterServersAreKnownAndNamed(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t)
	s, log := told(t, topology.Config{Type: topology.Cluster, URL: set.Addrs()[0]})
	awaitKnown(t, s, "all primaries are up", eachIs(backend.ServerUp, set.Primaries(t)...))
	if err := countHits(t, s, 50); err != nil {
		t.Fatal(err)
	}
	awaitKnown(t, s, "none is counted twice", eachIs(backend.ServerUp, set.Primaries(t)...))
	lost := set.Nodes[0]
	lost.Kill()
	process.Eventually(t, "the loss is told", func() error {
		_ = countHits(t, s, 10) // those of the lost node fail
		return log.Contains(`level=WARN msg="redis server does not answer" server=` + lost.Addr)
	})
	process.Eventually(t, "its replica takes over", func() error { return countHits(t, s, 10) })
	awaitKnown(t, s, "its replica is known in its place", eachIs(backend.ServerUp, set.Primaries(t)...))
	gone := eachIs(backend.ServerAway, set.Primaries(t)...)
	for _, node := range set.Nodes {
		node.Kill()
	}
	_ = countHits(t, s, 50)
	awaitKnown(t, s, "all have gone", gone)
}

func TestUnansweredClusterIsUnavailable(t *testing.T) {
	t.Parallel()
	s, _ := told(t, topology.Config{Type: topology.Cluster, URL: "127.0.0.1:1"})
	awaitKnown(t, s, "nobody knows its servers", map[string]backend.ServerState{"redis": backend.ServerAway})
}

// A Redis that takes no writes cannot admit anybody, but it knows who is over the limit: these must not pass by a
// policy that allows what has no answer.
func TestReadOnlyServerStillDenies(t *testing.T) {
	t.Parallel()
	for code, setting := range map[string][3]string{
		"OOM":        {"maxmemory", "100kb", "0"},
		"NOREPLICAS": {"min-replicas-to-write", "1", "0"},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			s, log := told(t, topology.Config{URL: server.Addr})
			process.Eventually(t, "it counts", s.ProbeErr)
			ask := func(op backend.Op, key string) (backend.Decision, error) {
				var out [1]backend.Decision
				check := backend.Check{Op: op, Key: []byte(key), Hits: 2, Limits: []descriptors.Limit{
					backendtest.NewLimit(t, 2, descriptors.Day, 1, descriptors.SlidingWindow, 0)}}
				err := backend.DecideAll(t.Context(), s, []backend.Check{check}, out[:])
				return out[0], err
			}
			if d, err := ask(backend.Count, "over"); err != nil || !d.Allowed {
				t.Fatalf("while it takes writes: %+v, %v", d, err)
			}
			set := func(value string) {
				t.Helper()
				if err := server.Client().ConfigSet(t.Context(), setting[0], value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			set(setting[1])
			for _, op := range []backend.Op{backend.Count, backend.Look} {
				if d, err := ask(op, "over"); err != nil || d.Allowed {
					t.Errorf("operation %d of a key over its limit: %+v, %v; want it denied", op, d, err)
				}
			}
			if d, err := ask(backend.Count, "another"); err == nil {
				t.Errorf("a key without hits gave %+v; it cannot have been counted", d)
			}
			process.Eventually(t, "the log tells what is wrong", func() error {
				return errors.Join(log.Contains(`level=WARN msg="redis server cannot count" server=`+server.Addr),
					log.Contains(code), log.Contains("it takes no writes: make room"))
			})
			awaitKnown(t, s, "and so does what is known", eachIs(backend.ServerFailing, server))
			set(setting[2])
			process.Eventually(t, "it counts by functions again", func() error {
				if _, err := ask(backend.Count, "a third"); err != nil {
					return err
				}
				if mode, err := s.script.Mode(t.Context(), ownerOf(t, topology.Config{URL: server.Addr})); err != nil || mode.Command != "fcall" {
					return fmt.Errorf("it is called by %+v, %w", mode, err)
				}
				return log.Contains(`level=WARN msg="redis server can count again" server=` + server.Addr)
			})
		})
	}
}

// presences are those of processes that tell nothing by themselves.
func presences(t *testing.T, c topology.Config, n int) (all []*presence) {
	t.Helper()
	for range n {
		all = append(all, newPresence(storeAt(t, c)))
	}
	return all
}

// announce lets each presence be announced once, and wants each to know of so many replicas.
func announce(t *testing.T, when string, all []*presence, want ...int) {
	t.Helper()
	for i, h := range all {
		n := 0
		process.Eventually(t, "an announcement, which the product gives a second", func() (err error) {
			n, err = h.update(t.Context())
			return err
		})
		if n != want[i] {
			t.Errorf("%s, number %d knows of %d replicas, want %d", when, i, n, want[i])
		}
	}
}

func TestReplicasCountEachOther(t *testing.T) {
	t.Parallel()
	for _, kind := range typesBut(topology.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			all := presences(t, start(t, kind), 3)
			announce(t, "at first", all, 1, 2, 3)
			announce(t, "then", all, 3, 3, 3)
		})
	}
}

// A process that is killed tells nobody: its presence grows old.
func TestKilledReplicaIsNoLongerCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client, ctx := server.Client(), context.Background()
	now := client.Time(ctx).Val()
	for name, at := range map[string]time.Time{
		"alive": now, "of another clock": now.Add(time.Hour), "killed": now.Add(-presenceTTL - time.Second),
		"killed long ago": now.Add(-2*presenceTTL - time.Second),
	} {
		client.HSet(ctx, replicasKey, name, at.UnixMilli())
	}
	client.HSet(ctx, replicasKey, "broken", "nonsense")
	all := presences(t, topology.Config{URL: server.Addr}, 1)
	announce(t, "beside one that lives and four that do not", all, 2)
	if n := client.HLen(ctx, replicasKey).Val(); n != 3 {
		t.Errorf("%d presences are kept, want the two of who lives, and that of who was killed just now, for the others to read", n)
	}
	if ttl := client.PTTL(ctx, replicasKey).Val(); ttl <= 0 || ttl > 4*presenceTTL {
		t.Errorf("the presences live for %v, want a minute at most after the last process", ttl)
	}
	client.HSet(ctx, replicasKey, "alive", now.Add(-presenceTTL-time.Second).UnixMilli())
	announce(t, "when the last announcement of the other one has grown old", all, 1)
}

// Else each replica would for a moment take the whole limit for its share.
func TestFlushedPresenceKeepsTheReplicaCount(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	all := presences(t, topology.Config{URL: server.Addr}, 2)
	announce(t, "at first", all, 1, 2)
	announce(t, "then", all, 2, 2)
	if n := all[0].store.Stats().Losses; n != 0 {
		t.Errorf("%d losses are counted of a server that had none", n)
	}
	for range 3 {
		server.Client().FlushAll(context.Background())
		announce(t, "after the presences were flushed", all, 2, 2)
	}
	if n := all[0].store.Stats().Losses; n != 3 {
		t.Errorf("%d losses are counted, want 3: the server was flushed three times, presences apart", n)
	}
	if n := all[0].others(time.Now().Add(presenceTTL + time.Second)); n != 0 {
		t.Errorf("%d others are thought to live who have told nothing for long", n)
	}
}

// Else a replica that starts with others, or hears again after an outage before they do, would take the whole limit for
// its share until its next announcement.
func TestReplicasAreCountedAfterAFullPause(t *testing.T) {
	t.Parallel()
	s := &Store{presence: &presence{}}
	h, now := s.presence, time.Now()
	for _, step := range []struct {
		when  string
		after time.Duration
		found int
		alive int
		all   bool
	}{
		{"at the first announcement", 0, 1, 1, false},
		{"when another one tells", time.Second, 2, 2, false},
		{"a moment before all have told", presenceInterval - 1, 1, 2, false},
		{"when all have told", presenceInterval, 3, 3, true},
		{"when one has left", presenceInterval, 2, 2, true},
	} {
		h.noteAlive(step.found, now.Add(step.after))
		if alive, all := s.Replicas(); alive != step.alive || all != step.all {
			t.Errorf("%s %d are known (all: %v), want %d (%v)", step.when, alive, all, step.alive, step.all)
		}
	}
	h.since = time.Time{} // as an outage has it
	h.noteAlive(1, now.Add(time.Hour))
	if alive, _ := s.Replicas(); alive != 2 {
		t.Errorf("the first announcement after an outage leaves %d replicas, want the 2 from before: the other may not have told yet", alive)
	}
	h.noteAlive(1, now.Add(time.Hour+presenceInterval))
	if alive, _ := s.Replicas(); alive != 1 {
		t.Errorf("%d replicas are known, want one: no other has told for as long as each does", alive)
	}
}
