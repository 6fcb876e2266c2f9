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

// awaitKnown waits until the servers are known so: each by its name.
func awaitKnown(t *testing.T, s *Store, why string, want map[string]backend.ServerState) {
	t.Helper()
	redistest.Eventually(t, why, func() error {
		if got := s.Servers(); !maps.Equal(got, want) {
			return fmt.Errorf("known is %v, want %v", got, want)
		}
		return nil
	})
}

func TestItIsReadyOnceAServerCanCount(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	s.Kill()
	store, log := told(t, topology.Config{URL: s.Addr})
	status := store
	is := func(state backend.ServerState) map[string]backend.ServerState {
		return map[string]backend.ServerState{s.Addr: state}
	}
	awaitKnown(t, store, "a server that has not answered yet is away", is(backend.ServerAway))
	redistest.Eventually(t, "that the server is away is known", func() error {
		if err := status.Ready(); err == nil || !strings.Contains(err.Error(), s.Addr) {
			return fmt.Errorf("it is ready: %w", err)
		}
		return nil
	})
	s.Restart(t)
	redistest.Eventually(t, "the server is found", status.Ready)
	awaitKnown(t, store, "it has answered a probe", is(backend.ServerUp))
	redistest.Eventually(t, "it is logged", func() error { return log.Contains(`msg="Redis is ready" servers=1`) })
	if n := strings.Count(log.String(), "redis server does not answer"); n != 1 {
		t.Errorf("that it was away was logged %d times, want once:\n%s", n, log)
	}
	s.Kill()
	if err := status.Ready(); err != nil {
		t.Errorf("a server that goes away later makes it unready: %v; the failure policy answers then", err)
	}
	_ = countHits(t, store, 1) // who asks shows it
	awaitKnown(t, store, "it has gone", is(backend.ServerAway))
	s.Restart(t)
	awaitKnown(t, store, "it is back, though nobody asks", is(backend.ServerUp))
}

func TestARingIsReadyThoughANodeIsAway(t *testing.T) {
	t.Parallel()
	node, other := redistest.Single(t), redistest.Single(t)
	other.Kill()
	store, log := told(t, topology.Config{Type: topology.Ring, URL: node.Addr + "," + other.Addr})
	status := store
	redistest.Eventually(t, "the node that is well suffices", status.Ready)
	redistest.Eventually(t, "it is logged", func() error { return log.Contains(`msg="Redis is ready" servers=1`) })
	redistest.Eventually(t, "the ring tells of the other one", func() error {
		return log.Contains(`msg="ring node does not answer" node=` + other.Addr)
	})
	if strings.Contains(log.String(), "redis server does not answer") {
		t.Errorf("a loss is told twice:\n%s", log)
	}
	one := map[string]backend.ServerState{node.Addr: backend.ServerUp, other.Addr: backend.ServerAway}
	both := map[string]backend.ServerState{node.Addr: backend.ServerUp, other.Addr: backend.ServerUp}
	awaitKnown(t, store, "it is away", one)
	other.Restart(t)
	awaitKnown(t, store, "it has come", both)
	other.Kill()
	awaitKnown(t, store, "it has left, and no check was asked", one)
}

func TestTheServersOfAClusterAreKnownAndNamed(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t)
	s, log := told(t, topology.Config{Type: topology.Cluster, URL: set.Addrs()[0]})
	are := func(state backend.ServerState) map[string]backend.ServerState {
		all := make(map[string]backend.ServerState)
		for _, primary := range set.Primaries(t) {
			all[primary.Addr] = state
		}
		return all
	}
	awaitKnown(t, s, "all primaries are up", are(backend.ServerUp))
	if err := countHits(t, s, 50); err != nil {
		t.Fatal(err)
	}
	awaitKnown(t, s, "none is counted twice", are(backend.ServerUp))
	lost := set.Nodes[0]
	lost.Kill()
	redistest.Eventually(t, "the loss is told", func() error {
		_ = countHits(t, s, 10) // those of the lost node fail
		return log.Contains(`level=WARN msg="redis server does not answer" server=` + lost.Addr)
	})
	redistest.Eventually(t, "its replica takes over", func() error { return countHits(t, s, 10) })
	redistest.Eventually(t, "and that the node is out of use is told", func() error {
		return log.Contains(`level=INFO msg="redis server is not asked any more" server=` + lost.Addr)
	})
	awaitKnown(t, s, "its replica is known in its place", are(backend.ServerUp))
	gone := are(backend.ServerAway)
	for _, node := range set.Nodes {
		node.Kill()
	}
	_ = countHits(t, s, 50)
	awaitKnown(t, s, "all have gone", gone)
}

// A server that is too slow for its callers is not lost, and those who could mend it hear what it is.
func TestAServerTooSlowForItsCallersIsToldToBeThat(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := redistest.Proxy(t, server.Addr)
	s, log := told(t, topology.Config{URL: proxy.Addr, Timeout: 5 * time.Second})
	redistest.Eventually(t, "it counts", s.Ready)
	proxy.Delay(redistest.Replies, 40*time.Millisecond)
	call := func() error {
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		check := backend.Check{Key: []byte("4:shop"), Limits: hourly(t, 1_000_000), Hits: 1}
		return backend.DecideAll(ctx, s, []backend.Check{check}, make([]backend.Decision, 1))
	}
	late := `level=WARN msg="redis server answers too late" server=` + proxy.Addr
	redistest.Eventually(t, "it is told", func() error {
		_ = call()
		return log.Contains(late)
	})
	redistest.Eventually(t, "a slow server is no reason to send requests elsewhere", s.Answers)
	for range 50 {
		_ = call()
	}
	proxy.Heal()
	redistest.Eventually(t, "it is told that it is over", func() error {
		_ = call()
		return log.Contains(`level=WARN msg="redis server answers in time again" server=` + proxy.Addr)
	})
}

func TestAClusterThatNeverAnsweredIsAway(t *testing.T) {
	t.Parallel()
	s, _ := told(t, topology.Config{Type: topology.Cluster, URL: "127.0.0.1:1"})
	awaitKnown(t, s, "nobody knows its servers", map[string]backend.ServerState{"the cluster": backend.ServerAway})
}

func TestThePrimaryOfSentinelsIsOneServer(t *testing.T) {
	t.Parallel()
	c := on(t, topology.Sentinel)
	s, _ := told(t, c)
	master, sentinels, _ := strings.Cut(c.URL, ",")
	up := map[string]backend.ServerState{fmt.Sprintf("%s (sentinels %s)", master, strings.ReplaceAll(sentinels, ",", ", ")): backend.ServerUp}
	awaitKnown(t, s, "the primary is up", up)
	if err := countHits(t, s, 1); err != nil {
		t.Fatal(err)
	}
	awaitKnown(t, s, "it is not counted twice", up)
}

// A Redis that takes no writes cannot admit anybody, but it knows who is over the limit: these must not pass by a
// policy that allows what has no answer.
func TestAServerThatTakesNoWritesStillDenies(t *testing.T) {
	t.Parallel()
	for code, setting := range map[string][3]string{
		"OOM":        {"maxmemory", "100kb", "0"},
		"NOREPLICAS": {"min-replicas-to-write", "1", "0"},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			s, log := told(t, topology.Config{URL: server.Addr})
			redistest.Eventually(t, "it counts", s.Ready)
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
			redistest.Eventually(t, "the log tells what is wrong", func() error {
				return errors.Join(log.Contains(`level=WARN msg="redis server cannot count" server=`+server.Addr),
					log.Contains(code), log.Contains("it takes no writes: make room"))
			})
			awaitKnown(t, s, "and so does what is known", map[string]backend.ServerState{server.Addr: backend.ServerFailing})
			set(setting[2])
			redistest.Eventually(t, "it counts by functions again", func() error {
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
