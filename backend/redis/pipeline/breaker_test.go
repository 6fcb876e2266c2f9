package pipeline

import (
	"errors"
	"testing"
	"time"
)

// event is something that a breaker is told, so long after the one before.
type event struct {
	after time.Duration
	tell  func(b *breaker, now time.Time)
	want  breakerState
}

const patient = 18 * time.Millisecond // what is left of Envoy's 20 ms

// ends is an exchange that began so long ago.
func ends(o outcome, took time.Duration) func(*breaker, time.Time) {
	return func(b *breaker, now time.Time) {
		b.exchanged(o, now.Add(-took), now)
	}
}

// pings is a PING that is over: it took so long, or failed.
func pings(took time.Duration, err error) func(*breaker, time.Time) {
	return func(b *breaker, now time.Time) { b.pinged(err, now.Add(-took), now) }
}

var errSilent = errors.New("silence")

func TestTheBreaker(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	miss := event{patient, ends(outcomeLost, patient), stateClosed}
	away := event{0, ends(outcomeUnreachable, 0), stateOpen}
	back := event{100 * ms, pings(ms, nil), stateHalfOpen}
	for name, events := range map[string][]event{
		"a refused connection opens it at once":              {away},
		"three exchanges in a row without an answer open it": {miss, miss, {patient, ends(outcomeLost, patient), stateOpen}},
		"an answer between them keeps it closed":             {miss, miss, {ms, ends(outcomeAnswered, ms), stateClosed}, miss, miss},
		"three that overlap are one, as when the machine stands still": {miss, {0, ends(outcomeLost, patient), stateClosed},
			{ms, ends(outcomeLost, patient), stateClosed}, {0, ends(outcomeLost, patient), stateClosed}},
		"a PING that fails after the first opens it": {miss, {100 * ms, pings(100*ms, errSilent), stateOpen}},
		"an answer during that PING outweighs it": {miss, {50 * ms, ends(outcomeAnswered, ms), stateClosed},
			{50 * ms, pings(100*ms, errSilent), stateClosed}},
		"a PONG between them does not": {miss, miss, {ms, pings(ms, nil), stateClosed}, {patient, ends(outcomeLost, patient), stateOpen}},
		"a server that says three times that it is not ready is away": {{ms, ends(outcomeLoading, 0), stateClosed},
			{ms, ends(outcomeLoading, 0), stateClosed}, {ms, ends(outcomeLoading, 0), stateOpen}},
		"a PONG opens it by half, and an answer closes it":   {away, back, {ms, ends(outcomeAnswered, ms), stateClosed}},
		"a PING that fails keeps it open":                    {away, {100 * ms, pings(0, errSilent), stateOpen}},
		"the batch of a half open one that is lost opens it": {away, back, {patient, ends(outcomeLost, patient), stateOpen}},
		"and so does one that is refused":                    {away, back, {ms, ends(outcomeLoading, ms), stateOpen}},
		"what left before the PONG does not":                 {away, back, {ms, ends(outcomeLost, 50*ms), stateHalfOpen}},
		"nor does it close it":                               {away, back, {ms, ends(outcomeAnswered, 50*ms), stateHalfOpen}},
		"while it is open no exchange tells anything":        {away, {ms, ends(outcomeAnswered, 0), stateOpen}},
		"what tells nothing changes nothing": {{ms, ends(outcomeUnknown, ms), stateClosed}, {ms, ends(outcomeUnknown, ms), stateClosed},
			{ms, ends(outcomeUnknown, ms), stateClosed}},
	} {
		t.Run(name, func(t *testing.T) {
			b, now := new(breaker), time.Unix(1_000_000, 0)
			for i, e := range events {
				now = now.Add(e.after)
				e.tell(b, now)
				if b.state != e.want {
					t.Fatalf("after event %d it is in state %d, want %d", i+1, b.state, e.want)
				}
			}
		})
	}
}

// The PING that a loss leads to may fail while callers are answered: a server may take no new connections, and serve
// those that it has.
func TestAnswersOutweighAPingThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	q := queueToNobody(t)
	now := time.Now()
	q.update(now, errLate, func() {
		q.breaker.exchanged(outcomeLost, now, now)
		q.pinging = true // as startPings does
	})
	q.noteExchange(outcomeAnswered, now, nil)
	q.update(now, errSilent, func() {
		q.breaker.pinged(errSilent, now, now)
		q.pinging = false
	})
	if q.breaker.state != stateClosed {
		t.Error("a PING that failed has opened the breaker, although callers were answered meanwhile")
	}
}

// A server that froze after its PONG takes the trial's connection as long as the store allows. Until that is over
// nothing else is sent to it, so callers must not wait for as long.
func TestATrialHasAsLongForItsConnectionAsPING(t *testing.T) {
	t.Parallel()
	q := queueToNobody(t)
	now := time.Now()
	trial := &Batch{sent: now.Add(-2*dialTimeout - patient), deadline: now.Add(-2 * dialTimeout)}
	q.mu.Lock()
	q.breaker.become(stateHalfOpen, trial.sent)
	q.trial, q.out = trial, []*Batch{trial}
	q.mu.Unlock()
	q.checkOverdue()
	if q.away.Load() == nil {
		t.Errorf("%v after its callers left, a trial still waits for a connection; want callers to be told that the server is away",
			2*dialTimeout)
	}
}

// The first exchange that a frozen server loses costs the connection that there was, and it greets no new one: whoever
// waits for that is lost, too, in a batch or before it.
func TestThreeLostExchangesOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for name, queued := range map[string]bool{"in batches": false, "in the queue": true} {
		q := queueToNobody(t)
		q.mu.Lock()
		q.pinging = true // no PING finds out before
		q.mu.Unlock()
		left := time.Now().Add(-time.Second)
		for n := 1; n <= tripAfter; n++ {
			until := left.Add(patient)
			q.mu.Lock()
			if q.out = []*Batch{{sent: left, deadline: until}}; queued {
				waits := &call{deadline: until, done: make(chan struct{}, 2)}
				q.waiting = []*group{{call: waits, joined: left}}
				q.out = nil
				q.maxOut = 0
			}
			q.mu.Unlock()
			if q.checkOverdue(); (q.away.Load() != nil) != (n == tripAfter) {
				t.Errorf("%s: after %d callers, one after the other, who left without a connection the server counts as away: %v; want it "+
					"from the third on", name, n, q.away.Load() != nil)
			}
			left = until
		}
	}
}

// queueToNobody is a queue to a server that no connection leads to.
func queueToNobody(t *testing.T) *queue {
	t.Helper()
	q, err := testPipeline(t, "127.0.0.1:1", ample).ownerQueue(nil)
	if err != nil {
		t.Fatal(err)
	}
	return q
}
