package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

const (
	hasty      = 20 * time.Millisecond          // the deadline of Envoy's usual call
	firstCount = coldPlans*coldUsers + hotPlans // of allKeys, with policy allow
	patientKey = firstCount + countUsers - 1
)

// A frozen Redis opens the breaker before hurried callers have lost many calls, also beside one that waits a second.
// Only the long form measures it, and prints the times: on a busy machine they tell nothing.
func TestAFrozenRedisOpensTheBreaker(t *testing.T) {
	if !*long {
		t.Skip("it measures times: go test -run TestAFrozenRedisOpensTheBreaker -v ./cmd/weir/faults -long")
	}
	for _, clients := range []struct{ n, rate int }{{15, 50}, {40, 100}} {
		for patient := range 2 {
			name := fmt.Sprintf("%d clients, %d calls a second each, %d of a second", clients.n, clients.rate, patient)
			t.Run(name, func(t *testing.T) {
				server := redistest.Single(t)
				r := startReplica(t, "", rules(time.Minute), "REDIS_URL="+server.Addr)
				redistest.Eventually(t, "weir counts", func() error { return r.look("0", patience) })
				hurried := &load{record: &record{epoch: time.Now()}, to: []*replica{r}, budget: hasty, leave: make(chan struct{})}
				slow := &load{record: hurried.record, to: hurried.to, budget: time.Second, leave: make(chan struct{})}
				stood := watchStalls(t, hurried.record)
				every := time.Second / time.Duration(clients.rate)
				for i := range clients.n {
					time.Sleep(every / time.Duration(clients.n)) // so that they do not all ask at once
					hurried.running.Go(func() { hurried.keepAsking(firstCount+i%(countUsers-1), every) })
				}
				for range patient {
					slow.running.Go(func() { slow.keepAsking(patientKey, hasty) })
				}
				time.Sleep(2 * time.Second)
				froze := hurried.record.now()
				server.Stop()
				opened := awaitOpen(t, hurried.record, froze)
				server.Cont()
				hurried.stop()
				slow.stop()
				t.Log(untilOpen(hurried.record, froze, opened, stood))
			})
		}
	}
}

// keepAsking makes one call after the other, no more than one in a time.
func (l *load) keepAsking(key int, every time.Duration) {
	turns := time.NewTicker(every)
	defer turns.Stop()
	for {
		l.record.add(l.ask(0, key))
		select {
		case <-l.leave:
			return
		case <-turns.C:
		}
	}
}

// awaitOpen returns when the first hurried call began that was told at once that Redis is away.
func awaitOpen(t *testing.T, r *record, froze time.Duration) time.Duration {
	t.Helper()
	for until := time.Now().Add(process.Hang); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		for _, c := range r.all() {
			if c.key != patientKey && c.begun > froze && c.reason == "down" && c.ended-c.begun < hasty/2 {
				return c.begun
			}
		}
	}
	t.Fatal("no caller of a frozen Redis is told at once that it is away")
	return 0
}

// untilOpen says what became of the hurried calls until the breaker was open.
func untilOpen(r *record, froze, opened time.Duration, stood *stalls) string {
	n, late, excused := 0, 0, 0
	for _, c := range r.all() {
		if c.key == patientKey || c.ended < froze || c.begun > opened {
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
	return fmt.Sprintf("open after %s, want 80ms at most; %d of %d calls late meanwhile, %.1f%% of 3%%, %d of them as the machine stood",
		(opened - froze).Round(time.Millisecond), late, n, share(late, n), excused)
}
