package counter

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// outageTime is how long outages last: to measure them, give them more, and run nothing beside.
var outageTime = flag.Duration("outage", 500*time.Millisecond, "how long outages last, and what comes before them")

// called is what became of one call of a load.
type called struct {
	n        int           // in the load
	at, took time.Duration // since the load began
	err      error
}

// loadOf makes so many calls a second, whether earlier ones are answered or not, until stop is called, which waits for
// them and returns all.
func loadOf(s *Store, rate int, deadline time.Duration) (stop func() []called) {
	var mu sync.Mutex
	var all []called
	var calls, pacing sync.WaitGroup
	end, begin := make(chan struct{}), time.Now()
	pacing.Go(func() {
		for n := 0; ; n++ {
			at := begin.Add(time.Duration(n) * time.Second / time.Duration(rate))
			select {
			case <-time.After(time.Until(at)):
			case <-end:
				return
			}
			calls.Go(func() {
				start := time.Now()
				ctx, cancel := context.WithDeadline(context.Background(), start.Add(deadline))
				defer cancel()
				out := make([]backend.Decision, 1)
				err := backend.DecideAll(ctx, s, hits(fmt.Sprint("key ", n%1000)), out)
				c := called{n, start.Sub(begin), time.Since(start), err}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, c)
			})
		}
	})
	return func() []called {
		close(end)
		pacing.Wait()
		calls.Wait()
		slices.SortFunc(all, func(a, b called) int { return int(a.at - b.at) })
		return all
	}
}

// between returns the calls that began in a span of the load.
func between(all []called, from, to time.Duration) (some []called) {
	for _, c := range all {
		if c.at >= from && c.at < to {
			some = append(some, c)
		}
	}
	return some
}

// describe prints how long calls took, and how many were answered.
func describe(t *testing.T, what string, some []called, deadline time.Duration) {
	t.Helper()
	var times []time.Duration
	answered, late, reasons := 0, 0, make(map[string]int)
	for _, c := range some {
		times = append(times, c.took)
		if c.err == nil {
			answered++
		} else {
			reasons[backend.ReasonOf(c.err).String()]++
		}
		if c.took > deadline {
			late++
		}
	}
	slices.Sort(times)
	if len(times) == 0 {
		t.Logf("%s: no calls", what)
		return
	}
	at := func(q int) time.Duration {
		return times[min(len(times)*q/1000, len(times)-1)].Round(10 * time.Microsecond)
	}
	t.Logf("%s: %d calls, %d answered, %v; p50 %v p99 %v p99.9 %v most %v; %d after their deadline",
		what, len(some), answered, reasons, at(500), at(990), at(999), at(1000), late)
}

// keptPace reports whether nine of ten calls ended by their deadline.
func keptPace(some []called, deadline time.Duration) bool {
	late := 0
	for _, c := range some {
		if c.took > deadline {
			late++
		}
	}
	return late*10 <= len(some)
}

// firstAnswer returns how long after from a call was answered that began then or later, -1 if none was.
func firstAnswer(all []called, from time.Duration) time.Duration {
	for _, c := range all {
		if c.at >= from && c.err == nil {
			return c.at + c.took - from
		}
	}
	return -1
}

func TestNobodyWaitsForAServerThatIsAway(t *testing.T) {
	lasts := *outageTime
	for name, outage := range map[string]struct {
		begin, end func(*testing.T, *redistest.Server, *redistest.FaultProxy)
		direct     bool
	}{
		"killed": {
			func(_ *testing.T, s *redistest.Server, _ *redistest.FaultProxy) { s.Kill() },
			func(t *testing.T, s *redistest.Server, _ *redistest.FaultProxy) { s.Restart(t) }, true,
		},
		"frozen": {
			func(_ *testing.T, s *redistest.Server, _ *redistest.FaultProxy) { s.Stop() },
			func(_ *testing.T, s *redistest.Server, _ *redistest.FaultProxy) { s.Cont() }, true,
		},
		"black hole": {
			func(_ *testing.T, _ *redistest.Server, p *redistest.FaultProxy) {
				p.Drop(redistest.Requests)
				p.Drop(redistest.Replies)
			},
			func(_ *testing.T, _ *redistest.Server, p *redistest.FaultProxy) { p.Heal() }, false,
		},
	} {
		for _, deadline := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
			t.Run(fmt.Sprint(name, " ", deadline), func(t *testing.T) {
				server := redistest.Single(t)
				proxy := redistest.Proxy(t, server.Addr)
				addr := proxy.Addr
				if outage.direct {
					addr = server.Addr
				}
				s := onServer(t, addr, redis.DefaultTimeout)
				begin := time.Now()
				stop := loadOf(s, 1000, deadline)
				time.Sleep(lasts)
				from := time.Since(begin)
				resent, dials := s.Stats().Resent, proxy.Counts().Connections
				outage.begin(t, server, proxy)
				time.Sleep(lasts)
				resent, dials = s.Stats().Resent-resent, proxy.Counts().Connections-dials
				outage.end(t, server, proxy)
				to := time.Since(begin)
				wait(t, "calls are answered again", func() bool {
					_, err := decide(s, deadline, "back")
					return err == nil
				})
				time.Sleep(lasts / 2)
				all := stop()
				describe(t, "before", between(all, 0, from), deadline)
				describe(t, "the first 200 ms", between(all, from, from+200*time.Millisecond), deadline)
				describe(t, "the outage", between(all, from, to), deadline)
				first := firstAnswer(all, to)
				describe(t, "after the first answer", between(all, to+first, time.Hour), deadline)
				t.Logf("the first answer came %v after the server was back; %d checks were sent again, %d dials in %v",
					first, resent, dials, lasts)
				if most := maxOut + 2 + int(to-from)*10/int(time.Second); dials > most {
					t.Errorf("%d dials, want %d at most: a connection for each batch that was out, and ten a second", dials, most)
				}
				if resent > 0 {
					t.Errorf("%d checks were sent again to a server that is away", resent)
				}
				// Where calls come later than their deadline, the machine had no time for anybody to find out.
				away := func(c called) bool { return backend.ReasonOf(c.err) == backend.Down }
				if during := between(all, from, to); !slices.ContainsFunc(during, away) && keptPace(during, deadline) {
					t.Error("nobody was told at once that the server is away")
				}
				if n := s.StatesSince(begin); n < 2 {
					t.Errorf("since %v a key had %d states, want two or more: nobody knows what the server still holds; %d in all",
						begin, n, s.StatesSince(time.Time{}))
				}
			})
		}
	}
}

func TestASlowServerIsAskedWhileItsCallersCanWait(t *testing.T) {
	for _, delay := range []time.Duration{5 * time.Millisecond, 15 * time.Millisecond, 50 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			const deadline = 20 * time.Millisecond
			server := redistest.Single(t)
			proxy := redistest.Proxy(t, server.Addr)
			s := onServer(t, proxy.Addr, redis.DefaultTimeout)
			stop := loadOf(s, 1000, deadline)
			time.Sleep(*outageTime)
			proxy.Delay(redistest.Replies, delay)
			begin := time.Now()
			dials := proxy.Counts().Connections
			time.Sleep(*outageTime)
			dials = proxy.Counts().Connections - dials
			open := proxy.Counts().Open
			proxy.Heal()
			slow := time.Since(begin)
			time.Sleep(*outageTime / 2)
			all := stop()
			describe(t, "before", between(all, 0, *outageTime), deadline)
			describe(t, "slow", between(all, *outageTime, *outageTime+slow), deadline)
			describe(t, "after", between(all, *outageTime+slow+200*time.Millisecond, time.Hour), deadline)
			t.Logf("%d dials in %v, %d connections open, %d states", dials, *outageTime, open, s.StatesSince(time.Time{}))
			if most := redis.DefaultPoolSize + 1; open > most {
				t.Errorf("%d connections are open, want %d at most: those of the pool, and one for PING", open, most)
			}
			if !slices.ContainsFunc(all, func(c called) bool { return c.err == nil }) {
				t.Error("no call was answered")
			}
		})
	}
}
