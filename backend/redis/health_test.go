package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/descriptors"
)

// watched is watch until the end of the test.
func watched(t *testing.T, on topology, log *logged) *status {
	t.Helper()
	c, err := Config{URL: "unused:1", Log: slog.New(slog.NewTextHandler(log, nil))}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := watch(on, c)
	t.Cleanup(s.close)
	return s
}

// told is a store with its log.
func told(t *testing.T, c Config) (*Store, *logged) {
	t.Helper()
	log := new(logged)
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // a test may have closed it
	return s, log
}

// countHits counts one hit of each of n keys.
func countHits(t *testing.T, s *Store, n int) (err error) {
	limits := []descriptors.Limit{backendtest.NewLimit(t, 1_000_000, descriptors.Hour, 1, descriptors.FixedWindow, 0)}
	for i := range n {
		check := backend.Check{Key: fmt.Appendf(nil, "4:shop4:user%d", i), Limits: limits, Hits: 1}
		failed := backend.DecideAll(t.Context(), s, []backend.Check{check}, make([]backend.Decision, 1))
		err = errors.Join(err, failed)
	}
	return err
}

func TestItIsReadyOnceAServerCanCount(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	s.Kill()
	on, log := openTopology(t, Config{URL: s.Addr})
	status := watched(t, on, log)
	eventually(t, "that the server is away is known", func() error {
		if err := status.ready(); errors.Is(err, errNotProbed) || err == nil {
			return fmt.Errorf("ready says %w", err)
		}
		return nil
	})
	s.Restart(t)
	took := eventually(t, "the server is found", status.ready)
	t.Logf("%v after it came", took)
	eventually(t, "it is logged", func() error { return contains(log, `msg="redis can count" servers=1`) })
	if n := strings.Count(log.String(), "redis server does not answer"); n != 1 {
		t.Errorf("that it was away was logged %d times, want once:\n%s", n, log)
	}
	s.Kill()
	if err := status.ready(); err != nil {
		t.Errorf("a server that goes away later makes it unready: %v; the failure policy answers then", err)
	}
}

func TestARingIsReadyThoughANodeIsAway(t *testing.T) {
	t.Parallel()
	node := redistest.Single(t)
	on, log := openTopology(t, Config{Type: Ring, URL: node.Addr + ",127.0.0.1:1"})
	status := watched(t, on, log)
	eventually(t, "the node that is well suffices", status.ready)
	if err := contains(log, `msg="redis can count" servers=1`); err != nil {
		t.Error(err)
	}
	eventually(t, "the ring tells of the other one", func() error {
		return contains(log, `msg="ring node does not answer" node=127.0.0.1:1`)
	})
	if strings.Contains(log.String(), "redis server does not answer") {
		t.Errorf("a loss is told twice:\n%s", log)
	}
}

func TestAServerThatGoesAwayAndComesBackIsToldOnceWhateverTheLoad(t *testing.T) {
	for name, outage := range map[string]struct {
		leave, back func(*testing.T, *redistest.Server)
	}{
		"killed": {
			func(_ *testing.T, s *redistest.Server) { s.Kill() },
			func(t *testing.T, s *redistest.Server) { s.Restart(t) },
		},
		"frozen": {
			func(_ *testing.T, s *redistest.Server) { s.Stop() },
			func(_ *testing.T, s *redistest.Server) { s.Cont() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			s, log := told(t, Config{URL: server.Addr, Timeout: time.Second})
			eventually(t, "it counts", s.Ready)
			ctx, end := context.WithCancel(t.Context())
			var load sync.WaitGroup
			defer load.Wait()
			defer end()
			for range 8 {
				load.Go(func() {
					for ctx.Err() == nil {
						_ = countHits(t, s, 1) // it fails while the server is away
						time.Sleep(time.Millisecond)
					}
				})
			}
			outage.leave(t, server)
			left := `level=WARN msg="redis server does not answer" server=` + server.Addr + ` error=`
			took := eventually(t, "it is told", func() error { return contains(log, left) })
			t.Logf("%v until the loss was told", took)
			eventually(t, "and known", func() error {
				if s.Answers() == nil {
					return errors.New("its only server is away, and still it answers")
				}
				return nil
			})
			time.Sleep(2500 * time.Millisecond) // more probes, which find nothing new
			outage.back(t, server)
			back := `level=INFO msg="redis server answers again" server=` + server.Addr
			took = eventually(t, "its return is told", func() error { return contains(log, back) })
			t.Logf("%v until its return was told", took)
			eventually(t, "and known", s.Answers)
			if n, m := strings.Count(log.String(), left), strings.Count(log.String(), back); n != 1 || m != 1 {
				t.Errorf("one outage was told %d times and its end %d times, want once each:\n%s", n, m, log)
			}
		})
	}
}

func TestTheServerOfAClusterThatLeavesIsNamed(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t)
	s, log := told(t, Config{Type: Cluster, URL: strings.Join(set.Addrs(), ",")})
	eventually(t, "it counts", s.Ready)
	if err := countHits(t, s, 30); err != nil {
		t.Fatal(err)
	}
	lost := set.Nodes[0]
	lost.Kill()
	eventually(t, "the loss is told", func() error {
		_ = countHits(t, s, 10) // those of the lost node fail
		return contains(log, `level=WARN msg="redis server does not answer" server=`+lost.Addr)
	})
	eventually(t, "its replica takes over", func() error { return countHits(t, s, 10) })
	eventually(t, "and that the node is out of use is told", func() error {
		return contains(log, `level=INFO msg="redis server is not asked any more" server=`+lost.Addr)
	})
	// The others may have refused to count meanwhile, which they say themselves.
	if n := strings.Count(log.String(), "redis server does not answer"); n != 1 {
		t.Errorf("the loss of one of three servers was told %d times, want once:\n%s", n, log)
	}
}

func TestAServerThatAnswersAndCannotCountIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s, log := told(t, Config{URL: server.Addr})
	eventually(t, "it counts", s.Ready)
	set := func(name, value string) {
		t.Helper()
		if err := server.Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("maxmemory", "1")
	eventually(t, "why is told", func() error {
		_ = countHits(t, s, 1) // it fails
		return errors.Join(contains(log, `level=WARN msg="redis server cannot count" server=`+server.Addr), contains(log, "OOM"))
	})
	set("maxmemory", "0")
	eventually(t, "that it is over is told", func() error {
		return contains(log, `level=INFO msg="redis server can count again" server=`+server.Addr)
	})
}

func TestACallerInAHurryDoesNotMakeAServerLookLost(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := redistest.Proxy(t, server.Addr)
	s, log := told(t, Config{URL: proxy.Addr, Timeout: 5 * time.Second})
	eventually(t, "it counts", s.Ready)
	proxy.Delay(redistest.Replies, 40*time.Millisecond)
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		limits := []descriptors.Limit{backendtest.NewLimit(t, 10, descriptors.Hour, 1, descriptors.FixedWindow, 0)}
		check := backend.Check{Key: []byte("4:shop"), Limits: limits, Hits: 1}
		err := backend.DecideAll(ctx, s, []backend.Check{check}, make([]backend.Decision, 1))
		cancel()
		if !errors.Is(err, ErrUnavailable) {
			t.Fatalf("a server that takes 40 ms answered within 20 ms: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a server that answers later than its callers can wait is told to be away:\n%s", log)
	}
}

func TestAwaitGivesUpWhenItsTimeIsOverAndNotBefore(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Kill()
	late := Config{URL: server.Addr, GiveUp: 2 * time.Second, ProbePause: time.Hour, LongestProbePause: time.Hour}

	s, _ := told(t, late)
	began := time.Now()
	err := s.Await(t.Context())
	if took := time.Since(began); err == nil || !strings.Contains(err.Error(), server.Addr) || took < late.GiveUp {
		t.Errorf("without a server Await gave %v after %v, want an error that names it after %v", err, took, late.GiveUp)
	}

	s, _ = told(t, late)
	time.AfterFunc(late.GiveUp/2, func() { server.Restart(t) })
	if err := s.Await(t.Context()); err != nil {
		t.Errorf("a server that came before the time was over was not found: %v", err)
	}

	server.Kill()
	s, _ = told(t, Config{URL: server.Addr})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a time to give up Await gave %v, want to wait for its context", err)
	}
}
