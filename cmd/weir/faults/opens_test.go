package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// hasty is Envoy's usual deadline.
const hasty = 20 * time.Millisecond

// TestAFrozenRedisOpensTheBreaker is row 30 of the matrix: callers of 20 ms lose few calls until weir knows that Redis
// gives no answer, alone and beside one who waits a second. The times are printed.
func TestAFrozenRedisOpensTheBreaker(t *testing.T) {
	for _, clients := range []struct{ n, rate int }{{15, 50}, {40, 100}} {
		if testing.Short() && clients.n > 15 {
			continue
		}
		for _, patient := range []int{0, 1} {
			name := fmt.Sprintf("%d clients, %d calls a second each, %d of a second", clients.n, clients.rate, patient)
			t.Run(name, func(t *testing.T) {
				server := redistest.Single(t)
				r := startReplica(t, weirBinary, rules(time.Minute), "REDIS_URL="+server.Addr)
				redistest.Eventually(t, "weir counts", func() error { return r.look("0", patience) })
				o := &opening{record: &record{epoch: time.Now()}, replica: r, leave: make(chan struct{})}
				stood := watchStalls(t, o.record)
				t.Cleanup(o.stop)
				for i := range clients.n {
					o.running.Go(func() { o.keepAsking(i, hasty, time.Second/time.Duration(clients.rate)) })
				}
				for i := range patient {
					o.running.Go(func() { o.keepAsking(clients.n+i, time.Second, 20*time.Millisecond) })
				}
				time.Sleep(warm())
				froze := o.record.now()
				server.Stop()
				opened := o.awaitDown(t, froze)
				server.Cont()
				o.stop()
				t.Log(o.told(froze, opened, stood))
				for _, c := range o.record.all() {
					if c.verdict == failed {
						t.Errorf("a call failed that policy allow was to decide: %s", c.failure)
					}
				}
			})
		}
	}
}

// opening is the calls of a time in which a breaker opens.
type opening struct {
	record  *record
	replica *replica
	leave   chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

// stop ends the load.
func (o *opening) stop() {
	o.once.Do(func() { close(o.leave) })
	o.running.Wait()
}

// later returns the later one of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// keepAsking makes one call after the other, no more than one in a time.
func (o *opening) keepAsking(client int, budget, every time.Duration) {
	for due := time.Now().Add(every * time.Duration(client%10) / 10); ; due = later(due.Add(every), time.Now()) {
		select {
		case <-o.leave:
			return
		case <-time.After(time.Until(due)):
		}
		o.record.add(o.ask(fmt.Sprint(client), budget))
	}
}

// ask makes one call. It waits longer than weir is told to.
func (o *opening) ask(user string, budget time.Duration) call {
	ctx, cancel := context.WithTimeout(context.Background(), budget+patience)
	defer cancel()
	c := call{key: int(budget / time.Millisecond), begun: o.record.now()}
	answer, err := o.replica.rls().ShouldRateLimit(told{ctx, time.Now().Add(budget)}, request(countPlan("allow"), user))
	c.ended = o.record.now()
	if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Canceled {
		c.verdict = unanswered
	} else if err != nil {
		c.verdict, c.failure = failed, err.Error()
	}
	c.policy, c.reason = degraded(answer)
	return c
}

// awaitDown returns when the first call began that was told at once that Redis is away.
func (o *opening) awaitDown(t *testing.T, froze time.Duration) time.Duration {
	t.Helper()
	for until := time.Now().Add(process.Hang); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		for _, c := range o.record.all() {
			if c.begun > froze && c.reason == "down" && c.ended-c.begun < hasty/2 {
				return c.begun
			}
		}
	}
	t.Fatal("no caller of a frozen Redis is told at once that it is away")
	return 0
}

// told tells what became of the hurried calls until the breaker was open.
func (o *opening) told(froze, opened time.Duration, stood *stalls) string {
	n, late, excused := 0, 0, 0
	for _, c := range o.record.all() {
		if c.key != int(hasty/time.Millisecond) || c.ended < froze || c.begun > opened {
			continue
		}
		n++
		if c.verdict == unanswered || c.ended-c.begun > hasty {
			late++
			if stood.excuses(c.begun-longStall, c.ended, 0) {
				excused++
			}
		}
	}
	return fmt.Sprintf("open after %s of 80ms; %d of %d calls late meanwhile, %.1f%% of 3%%, %d of them as the machine stood",
		brief(opened-froze), late, n, share(late, n), excused)
}
