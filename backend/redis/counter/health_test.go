package counter

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
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/descriptors"
)

// told returns a store with its log.
func told(t *testing.T, c redis.Config) (*Store, *redistest.Log) {
	t.Helper()
	log := new(redistest.Log)
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	s, err := Open(Config{Redis: c})
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
	store, log := told(t, redis.Config{URL: s.Addr})
	status := store.Health()
	redistest.Eventually(t, "that the server is away is known", func() error {
		if err := status.Ready(); err == nil || !strings.Contains(err.Error(), s.Addr) {
			return fmt.Errorf("it is ready: %w", err)
		}
		return nil
	})
	s.Restart(t)
	took := redistest.Eventually(t, "the server is found", status.Ready)
	t.Logf("%v after it came", took)
	redistest.Eventually(t, "it is logged", func() error { return log.Contains(`msg="redis can count" servers=1`) })
	if n := strings.Count(log.String(), "redis server does not answer"); n != 1 {
		t.Errorf("that it was away was logged %d times, want once:\n%s", n, log)
	}
	s.Kill()
	if err := status.Ready(); err != nil {
		t.Errorf("a server that goes away later makes it unready: %v; the failure policy answers then", err)
	}
}

func TestARingIsReadyThoughANodeIsAway(t *testing.T) {
	t.Parallel()
	node := redistest.Single(t)
	store, log := told(t, redis.Config{Type: redis.Ring, URL: node.Addr + ",127.0.0.1:1"})
	status := store.Health()
	redistest.Eventually(t, "the node that is well suffices", status.Ready)
	if err := log.Contains(`msg="redis can count" servers=1`); err != nil {
		t.Error(err)
	}
	redistest.Eventually(t, "the ring tells of the other one", func() error {
		return log.Contains(`msg="ring node does not answer" node=127.0.0.1:1`)
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
			s, log := told(t, redis.Config{URL: server.Addr, Timeout: 3 * time.Second})
			redistest.Eventually(t, "it counts", s.Health().Ready)
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
			took := redistest.Eventually(t, "it is told", func() error { return log.Contains(left) })
			t.Logf("%v until the loss was told", took)
			redistest.Eventually(t, "and known", func() error {
				if s.Health().Answers() == nil {
					return errors.New("its only server is away, and still it answers")
				}
				return nil
			})
			time.Sleep(2500 * time.Millisecond) // more probes, which find nothing new
			outage.back(t, server)
			back := `level=WARN msg="redis server answers again" server=` + server.Addr
			took = redistest.Eventually(t, "its return is told", func() error { return log.Contains(back) })
			t.Logf("%v until its return was told", took)
			redistest.Eventually(t, "and known", s.Health().Answers)
			if n, m := strings.Count(log.String(), left), strings.Count(log.String(), back); n != 1 || m != 1 {
				t.Errorf("one outage was told %d times and its end %d times, want once each:\n%s", n, m, log)
			}
		})
	}
}

func TestTheServerOfAClusterThatLeavesIsNamed(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t)
	s, log := told(t, redis.Config{Type: redis.Cluster, URL: strings.Join(set.Addrs(), ",")})
	redistest.Eventually(t, "it counts", s.Health().Ready)
	if err := countHits(t, s, 30); err != nil {
		t.Fatal(err)
	}
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
	// The others may have refused to count meanwhile, which they say themselves.
	if n := strings.Count(log.String(), "redis server does not answer"); n != 1 {
		t.Errorf("the loss of one of three servers was told %d times, want once:\n%s", n, log)
	}
}

func TestAServerThatAnswersAndCannotCountIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s, log := told(t, redis.Config{URL: server.Addr})
	redistest.Eventually(t, "it counts", s.Health().Ready)
	set := func(name, value string) {
		t.Helper()
		if err := server.Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("maxmemory", "1")
	redistest.Eventually(t, "why is told", func() error {
		_ = countHits(t, s, 1) // it fails
		return errors.Join(log.Contains(`level=WARN msg="redis server cannot count" server=`+server.Addr), log.Contains("OOM"))
	})
	set("maxmemory", "0")
	redistest.Eventually(t, "that it is over is told", func() error {
		return log.Contains(`level=WARN msg="redis server can count again" server=` + server.Addr)
	})
}

// A server that is too slow for its callers is not lost, and those who could mend it hear what it is.
func TestAServerTooSlowForItsCallersIsToldToBeThat(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	proxy := redistest.Proxy(t, server.Addr)
	s, log := told(t, redis.Config{URL: proxy.Addr, Timeout: 5 * time.Second})
	redistest.Eventually(t, "it counts", s.Health().Ready)
	proxy.Delay(redistest.Replies, 40*time.Millisecond)
	call := func() error {
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		limits := []descriptors.Limit{backendtest.NewLimit(t, 1_000_000, descriptors.Hour, 1, descriptors.FixedWindow, 0)}
		check := backend.Check{Key: []byte("4:shop"), Limits: limits, Hits: 1}
		return backend.DecideAll(ctx, s, []backend.Check{check}, make([]backend.Decision, 1))
	}
	late := `level=WARN msg="redis server answers too late" server=` + proxy.Addr
	redistest.Eventually(t, "it is told", func() error {
		if err := call(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a server that takes 40 ms answered within 20 ms: %v", err)
		}
		return log.Contains(late)
	})
	if err := s.Health().Answers(); err != nil {
		t.Errorf("a slow server is no reason to send requests elsewhere, and Answers gives %v", err)
	}
	for range 150 {
		_ = call()
	}
	proxy.Heal()
	redistest.Eventually(t, "it is told that it is over", func() error {
		_ = call()
		return log.Contains(`level=WARN msg="redis server answers in time again" server=` + proxy.Addr)
	})
	if n := strings.Count(log.String(), late); n != 1 || strings.Contains(log.String(), "does not answer") {
		t.Errorf("it was told %d times, want once, and not that it does not answer, which it does:\n%s", n, log)
	}
}

func TestWhoWaitsInVainIsToldTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Kill()
	s, _ := told(t, redis.Config{URL: server.Addr, GiveUp: time.Millisecond})
	if err := s.Health().Await(t.Context()); err == nil || !strings.Contains(err.Error(), server.Addr) {
		t.Errorf("without a server Await gave %v, want an error that names it", err)
	}
}
