package counter

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

func TestAServerIsSlowAfterSomeSlowAnswersUntilAPromptOneOrNone(t *testing.T) {
	var p pacer
	now := time.Now()
	for i := range fewAnswers {
		if got := p.fastest(now); got != 0 {
			t.Fatalf("after %d slow answers the server is taken to need %v; want nothing known before %d", i, got, fewAnswers)
		}
		p.answered(30*time.Millisecond+time.Duration(i), now)
	}
	if got := p.fastest(now); got != 30*time.Millisecond {
		t.Errorf("the fastest of the last answers is %v, want 30ms", got)
	}
	p.answered(40*time.Millisecond, now)
	if got := p.fastest(now); got != 30*time.Millisecond+1 {
		t.Errorf("once the first of them is old, the fastest is %v, want 30.000001ms", got)
	}
	if got := p.fastest(now.Add(answersLast + 1)); got != 0 {
		t.Errorf("without an answer for a second the server is still taken to need %v", got)
	}
	p.answered(time.Millisecond, now)
	if got := p.fastest(now); got != 0 {
		t.Errorf("after a prompt answer the server is still taken to need %v: a machine that stood still has made it slow", got)
	}
}

// slowServer opens a store whose server, behind a proxy, answers 60 ms late, and returns what asks it with so much time.
func slowServer(t *testing.T) (*Store, *redistest.FaultProxy, func(time.Duration) error) {
	t.Helper()
	proxy := redistest.Proxy(t, redistest.Single(t).Addr)
	s := opensAt(t, redis.Config{URL: proxy.Addr})
	redistest.Eventually(t, "it counts", func() error { _, err := decide(s, time.Second, "key"); return err })
	proxy.Delay(redistest.Replies, 60*time.Millisecond)
	return s, proxy, func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return backend.DecideAll(ctx, s, hits("key"), make([]backend.Decision, 1))
	}
}

// Patient callers keep the breaker of a slow server closed. Those in a hurry must not wait for their whole deadline
// each time to learn what is known.
func TestCallersInAHurryDoNotWaitForAServerThatOthersWaitFor(t *testing.T) {
	t.Parallel()
	_, proxy, ask := slowServer(t)
	end := make(chan struct{})
	var patient sync.WaitGroup
	for range 4 {
		patient.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					_ = ask(450 * time.Millisecond)
				}
			}
		})
	}
	told, waited := 0, 0
	for begin := time.Now(); time.Since(begin) < 2*time.Second; time.Sleep(5 * time.Millisecond) {
		switch err := ask(20 * time.Millisecond); {
		case errors.Is(err, errSlow):
			told++
		case backend.ReasonOf(err) == backend.Late:
			waited++
		}
	}
	close(end)
	patient.Wait()
	if told == 0 {
		t.Errorf("no caller in a hurry was told that the server is too slow for it; %d waited in vain", waited)
	}
	proxy.Heal()
	redistest.Eventually(t, "a server that is prompt again is asked by all", func() error { return ask(20 * time.Millisecond) })
	t.Logf("%d callers in a hurry were told at once, %d waited", told, waited)
}

func TestPatientCallersAreAnsweredWhoeverCameFirst(t *testing.T) {
	t.Parallel()
	s, _, ask := slowServer(t)
	end := make(chan struct{})
	var hurried sync.WaitGroup
	hurried.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
				_ = ask(20 * time.Millisecond)
			}
		}
	})
	redistest.Eventually(t, "those in a hurry have opened the breaker", func() error {
		if !s.Stats().Servers[0].Away {
			return errors.New("it is closed")
		}
		return nil
	})
	redistest.Eventually(t, "a patient caller is answered all the same", func() error { return ask(450 * time.Millisecond) })
	close(end)
	hurried.Wait()
}
