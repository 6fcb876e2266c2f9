package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// listed is the names of servers, or the error of who does not know them.
type listed struct {
	mu    sync.Mutex
	names []string
	err   error
}

func (l *listed) servers(context.Context) (all []topology.Server, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.names {
		all = append(all, topology.Server{Name: name})
	}
	return all, l.err
}

// watched watches servers by a probe of the test's, in its bubble of time.
func watched(t *testing.T, on *listed, c topology.Config, probe func(name string) error) (*health, *process.Output) {
	t.Helper()
	log := new(process.Output)
	c.Log, c.URL = slog.New(slog.NewTextHandler(log, nil)), "127.0.0.1:1"
	servers, err := topology.Connect(c, "")
	if err != nil {
		t.Fatal(err)
	}
	h := newHealth(servers, func() {})
	h.servers = on.servers
	h.start(func(_ context.Context, one topology.Server) error { return probe(one.Name) })
	t.Cleanup(h.end)
	return h, log
}

var errAway = errors.New("dial a:1: connection refused")

// The clock is the test's: how long the machine takes does not count.
func TestAwaitGivesUpAtItsDeadline(t *testing.T) {
	late := topology.Config{GiveUp: 2 * time.Second, ProbePause: time.Hour, LongestProbePause: time.Hour}
	for name, c := range map[string]struct {
		config topology.Config
		comes  time.Duration // when the server can count; 0: never
		want   error
		after  time.Duration
	}{
		"without a server": {late, 0, errAway, late.GiveUp},
		"a server that came before the time was over":                {late, late.GiveUp / 2, nil, late.GiveUp},
		"a server that came when nobody waits any more":              {late, late.GiveUp + time.Second, errAway, late.GiveUp},
		"without a time to give up, and so with that of its context": {topology.Config{}, 0, context.DeadlineExceeded, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				h, _ := watched(t, &listed{names: []string{"a:1"}}, c.config, func(string) error {
					if c.comes == 0 || time.Since(began) < c.comes {
						return errAway
					}
					return nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := h.await(ctx); !errors.Is(err, c.want) || time.Since(began) != c.after {
					t.Errorf("Await gave %v after %v, want %v after %v", err, time.Since(began), c.want, c.after)
				}
			})
		})
	}
}

// A cluster of which nobody answers has no list of servers: that is told once, and once that it is over. What was known
// of the servers is not told again.
func TestLostServerListIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on, broken := &listed{names: []string{"a:1", "b:1"}}, false // both under on.mu
		h, log := watched(t, on, topology.Config{}, func(name string) error {
			on.mu.Lock()
			defer on.mu.Unlock()
			if broken && name == "b:1" {
				return errAway
			}
			return nil
		})
		phase := func(change func()) {
			on.mu.Lock()
			change()
			on.mu.Unlock()
			for range 3 {
				h.report(false)
				time.Sleep(time.Minute)
				synctest.Wait()
			}
		}
		phase(func() {})
		phase(func() { broken = true })
		phase(func() { on.err = errors.New("nobody knows") })
		if err := h.probeErr(); err == nil || h.await(t.Context()) != nil {
			t.Errorf("without a list the servers answer: %v, and were awaited: %v; want an error and, as one has counted before, none",
				err, h.await(t.Context()))
		}
		phase(func() { on.err = nil })
		phase(func() { on.names = on.names[:1] })
		for _, line := range []string{
			`level=INFO msg="Redis is ready" servers=2`,
			`level=WARN msg="redis server does not answer" server=b:1`,
			`level=WARN msg="cannot list Redis servers" error="nobody knows"`,
			`level=WARN msg="can list Redis servers again"`,
		} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("%s was logged %d times, want once:\n%s", line, n, log)
			}
		}
		if err := h.probeErr(); err != nil {
			t.Errorf("one server counts, and answers gives %v", err)
		}
	})
}
