package outbound

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
)

// event is an outcome that a breaker gets, a time after the previous event, and the state that it must have then.
type event struct {
	after time.Duration
	apply func(b *breaker, now time.Time)
	want  State
}

// exchange returns a function that reports the outcome of an exchange that took so long.
func exchange(o Outcome, took time.Duration) func(*breaker, time.Time) {
	return func(b *breaker, now time.Time) {
		b.onExchange(o, now.Add(-took), now)
	}
}

// ping returns a function that reports the outcome of a PING that took so long.
func ping(o Outcome, took time.Duration) func(*breaker, time.Time) {
	return func(b *breaker, now time.Time) { b.onPing(o, now.Add(-took), now) }
}

func TestBreakerFollowsExchangesAndPings(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	miss := event{callerTimeout, exchange(Lost, callerTimeout), Closed}
	away := event{0, exchange(Unreachable, 0), Open}
	back := event{100 * ms, ping(Answered, ms), HalfOpen}
	for name, events := range map[string][]event{
		"a refused connection opens it at once":              {away},
		"three exchanges in a row without an answer open it": {miss, miss, {callerTimeout, exchange(Lost, callerTimeout), Open}},
		"an answer between them keeps it closed":             {miss, miss, {ms, exchange(Answered, ms), Closed}, miss, miss},
		"three that overlap are one, as when the machine stands still": {miss, {0, exchange(Lost, callerTimeout), Closed},
			{ms, exchange(Lost, callerTimeout), Closed}, {0, exchange(Lost, callerTimeout), Closed}},
		"a PING that fails after the first opens it": {miss, {100 * ms, ping(Lost, 100*ms), Open}},
		"and so do two where nothing is asked":       {{0, ping(Lost, 100*ms), Closed}, {100 * ms, ping(Lost, 100*ms), Open}},
		"a PING that is refused opens it at once":    {{0, ping(Refused, ms), Open}},
		"a refused connection while others are answered is a loss": {miss, {ms, exchange(Answered, ms), Closed},
			{0, exchange(Unreachable, 2*ms), Closed}},
		"an answer during that PING outweighs it": {miss, {50 * ms, exchange(Answered, ms), Closed},
			{50 * ms, ping(Lost, 100*ms), Closed}},
		"a PONG between them does not": {miss, miss, {ms, ping(Answered, ms), Closed}, {callerTimeout, exchange(Lost, callerTimeout), Open}},
		"a server that says three times that it is not ready is away": {{ms, exchange(Loading, 0), Closed},
			{ms, exchange(Loading, 0), Closed}, {ms, exchange(Loading, 0), Open}},
		"a PONG opens it by half, and an answer closes it":   {away, back, {ms, exchange(Answered, ms), Closed}},
		"a PING that fails keeps it open":                    {away, {100 * ms, ping(Lost, 0), Open}},
		"the batch of a half open one that is lost opens it": {away, back, {callerTimeout, exchange(Lost, callerTimeout), Open}},
		"and so does one that is refused":                    {away, back, {ms, exchange(Loading, ms), Open}},
		"what left before the PONG does not":                 {away, back, {ms, exchange(Lost, 50*ms), HalfOpen}},
		"nor does it close it":                               {away, back, {ms, exchange(Answered, 50*ms), HalfOpen}},
		"while it is open no exchange tells anything":        {away, {ms, exchange(Answered, 0), Open}},
		"what tells nothing changes nothing": {{ms, exchange(Unknown, ms), Closed}, {ms, exchange(Unknown, ms), Closed},
			{ms, exchange(Unknown, ms), Closed}},
	} {
		t.Run(name, func(t *testing.T) {
			b, now := new(breaker), time.Unix(1_000_000, 0)
			for i, e := range events {
				now = now.Add(e.after)
				e.apply(b, now)
				if b.state != e.want {
					t.Fatalf("after event %d it is in state %d, want %d", i+1, b.state, e.want)
				}
			}
		})
	}
}

// The PING that follows a loss may fail while callers get answers: a server may refuse new connections, and serve the
// open ones.
func TestAnswersOutweighAFailedPing(t *testing.T) {
	t.Parallel()
	testServer(t, 1, testMaxInFlight, func(t *testing.T, f *fake) {
		f.answerPings(func() (Outcome, error) {
			time.Sleep(PingTimeout)
			return Lost, errAway
		})
		f.server.Note(Lost, time.Now(), errAway)
		time.Sleep(PingTimeout / 2)
		f.server.Note(Answered, time.Now(), nil)
		time.Sleep(time.Second)
		if f.server.Away() != nil {
			t.Error("a PING that failed has opened the breaker, although callers were answered meanwhile")
		}
	})
}

// The batch of a half-open breaker may wait for a connection to a frozen server up to the store's timeout. No other batch
// is sent until then, so the breaker must open again earlier.
func TestHalfOpenBatchConnectsWithinPingTimeout(t *testing.T) {
	t.Parallel()
	testServer(t, 2, testMaxInFlight, func(t *testing.T, f *fake) {
		f.answerPings(func() (Outcome, error) { return Answered, nil })
		f.server.Note(Unreachable, time.Now(), errAway)
		time.Sleep(PingPause) // PONG
		halfOpen, other := f.decideAsync(t, 20*time.Millisecond, "a"), f.decideAsync(t, longTimeout, "bb")
		wantReason(t, <-halfOpen, backend.Late)
		if n := len(f.sentBatches()); n != 1 {
			t.Errorf("%d batches are in flight from both queues, want one while the breaker is half open", n)
		}
		f.answerPings(func() (Outcome, error) { return Lost, errAway })
		began := time.Now()
		wantReason(t, <-other, backend.Down)
		if took := time.Since(began); took != DialTimeout {
			t.Errorf("others waited %v after the caller of the half-open batch had left, want %v", took, DialTimeout)
		}
	})
}

// The first exchange that a frozen server loses closes the connection, and the server accepts no new one. Callers that
// wait for a connection count as lost too, whether their batch waits or they are still queued.
func TestThreeLostExchangesOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for _, out := range []int{testMaxInFlight, 1} { // with 1, the second caller waits in the queue
		testServer(t, 1, out, func(t *testing.T, f *fake) {
			f.answerPings(func() (Outcome, error) { // no PING fails before the third exchange
				time.Sleep(longTimeout)
				return Lost, errAway
			})
			for n := 1; n <= tripAfter; n++ {
				time.Sleep(testPace)
				err := f.decide(t.Context(), 20*time.Millisecond, "a")
				synctest.Wait()
				if away := f.server.Away() != nil; away != (n == tripAfter) {
					t.Errorf("with %d in flight: after %d callers left without an answer (%v), one after the other, the server is away: %v; "+
						"want it away from the third on", out, n, err, away)
				}
			}
			wantReason(t, f.decide(t.Context(), longTimeout, "next"), backend.Down)
			if want := []State{Open}; !slices.Equal(f.changes, want) {
				t.Errorf("Changed got %v, want %v", f.changes, want)
			}
		})
	}
}

// Batches sent before the breaker opened may wait up to the store's timeout, and must not delay the half-open batch.
func TestOlderBatchesDelayNoHalfOpenBatch(t *testing.T) {
	t.Parallel()
	for out, want := range map[int]int{testMaxInFlight: testMaxInFlight + 1, 1: 1} { // a queue's only batch has its only connection
		testServer(t, 1, out, func(t *testing.T, f *fake) {
			for range out {
				f.decideAsync(t, longTimeout, "a")
				time.Sleep(testPace)
			}
			f.answerPings(func() (Outcome, error) { return Answered, nil })
			f.server.Note(Unreachable, time.Now(), errAway)
			time.Sleep(PingPause) // PONG
			f.decideAsync(t, longTimeout, "trial")
			if n := len(f.sentBatches()); n != want {
				t.Errorf("with %d in flight before, %d batches were sent in all after PONG, want %d", out, n, want)
			}
		})
	}
}

// While the breaker is open, only PINGs are sent. After a PONG one answered batch closes it. Each change is reported once.
func TestPongAndAnswerCloseTheBreaker(t *testing.T) {
	t.Parallel()
	testServer(t, 1, testMaxInFlight, func(t *testing.T, f *fake) {
		f.release()
		notified := make(chan struct{}, 9)
		f.Notify(notified)
		f.note = func(b *Batch[string]) { f.server.Note(Answered, b.Sent, nil) }
		f.server.Note(Unreachable, time.Now(), errAway)
		for range 10 {
			wantReason(t, f.decide(t.Context(), longTimeout, "a"), backend.Down)
			time.Sleep(PingPause)
		}
		if n := len(f.sentBatches()); n > 0 {
			t.Errorf("%d batches were sent to a server that is away", n)
		}
		f.answerPings(func() (Outcome, error) { return Answered, nil })
		time.Sleep(2 * PingPause)
		if err := f.decide(t.Context(), longTimeout, "a"); err != nil {
			t.Error(err)
		}
		if want := []State{Open, HalfOpen, Closed}; !slices.Equal(f.changes, want) || len(notified) != len(want) {
			t.Errorf("Changed got %v, and a subscriber %d notifications; want %v", f.changes, len(notified), want)
		}
	})
}
