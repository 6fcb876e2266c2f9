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

// BenchmarkAFrozenRedis tells how soon the breaker of a frozen Redis opens, at the latest, and how many of its hurried
// callers are late until then, with and without one beside them that waits a second.
func BenchmarkAFrozenRedis(b *testing.B) {
	for _, clients := range []struct{ n, rate int }{{15, 50}, {40, 100}} {
		for patient := range 2 {
			b.Run(fmt.Sprintf("%dclients/%dps/%dpatient", clients.n, clients.rate, patient), func(b *testing.B) {
				server := redistest.Single(b)
				r := startReplica(b, "", rules(time.Minute), "REDIS_URL="+server.Addr)
				hurried := &load{record: &record{epoch: time.Now()}, to: []*replica{r}, budget: hasty, leave: make(chan struct{})}
				slow := &load{record: hurried.record, to: hurried.to, budget: time.Second, leave: make(chan struct{})}
				every := time.Second / time.Duration(clients.rate)
				for i := range clients.n {
					time.Sleep(every / time.Duration(clients.n)) // so that they do not all ask at once
					hurried.running.Go(func() { hurried.keepAsking(firstCount+i%(countUsers-1), every) })
				}
				for range patient {
					slow.running.Go(func() { slow.keepAsking(patientKey, hasty) })
				}
				var latest time.Duration
				calls, late := 0, 0
				for b.Loop() {
					time.Sleep(time.Second) // it counts, again
					froze := hurried.record.now()
					server.Stop()
					opened := awaitOpen(b, hurried.record, froze)
					server.Cont()
					latest = max(latest, opened-froze)
					for _, c := range hurried.record.all() {
						if c.key == patientKey || c.ended < froze || c.begun > opened {
							continue
						}
						if calls++; c.verdict == unanswered || c.ended-c.begun > hasty {
							late++
						}
					}
				}
				hurried.stop()
				slow.stop()
				b.ReportMetric(float64(latest.Milliseconds()), "ms-to-open")
				b.ReportMetric(share(late, calls), "%late")
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
func awaitOpen(b *testing.B, r *record, froze time.Duration) time.Duration {
	b.Helper()
	for until := time.Now().Add(process.Hang); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		for _, c := range r.all() {
			if c.key != patientKey && c.begun > froze && c.reason == "down" && c.ended-c.begun < hasty/2 {
				return c.begun
			}
		}
	}
	b.Fatal("no caller of a frozen Redis is told at once that it is away")
	return 0
}
