package outbound

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
)

// event is something that a breaker is told, so long after the one before.
type event struct {
	after time.Duration
	tell  func(b *breaker, now time.Time)
	want  State
}

// ends is an exchange that began so long ago.
func ends(o Outcome, took time.Duration) func(*breaker, time.Time) {
	return func(b *breaker, now time.Time) {
		b.onExchange(o, now.Add(-took), now)
	}
}

// pings is a PING that is over: it took so long.
func pings(o Outcome, took time.Duration) func(*breaker, time.Time) {
	return func(b *breaker, now time.Time) { b.onPing(o, now.Add(-took), now) }
}

func TestBreakerFollowsExchangesAndPings(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	miss := event{patient, ends(Lost, patient), Closed}
	away := event{0, ends(Unreachable, 0), Open}
	back := event{100 * ms, pings(Answered, ms), HalfOpen}
	for name, events := range map[string][]event{
		"a refused connection opens it at once":              {away},
		"three exchanges in a row without an answer open it": {miss, miss, {patient, ends(Lost, patient), Open}},
		"an answer between them keeps it closed":             {miss, miss, {ms, ends(Answered, ms), Closed}, miss, miss},
		"three that overlap are one, as when the machine stands still": {miss, {0, ends(Lost, patient), Closed},
			{ms, ends(Lost, patient), Closed}, {0, ends(Lost, patient), Closed}},
		"a PING that fails after the first opens it": {miss, {100 * ms, pings(Lost, 100*ms), Open}},
		"and so do two where nothing is asked":       {{0, pings(Lost, 100*ms), Closed}, {100 * ms, pings(Lost, 100*ms), Open}},
		"a PING that is refused opens it at once":    {{0, pings(Refused, ms), Open}},
		"a refused connection while others are answered is a loss": {miss, {ms, ends(Answered, ms), Closed},
			{0, ends(Unreachable, 2*ms), Closed}},
		"an answer during that PING outweighs it": {miss, {50 * ms, ends(Answered, ms), Closed},
			{50 * ms, pings(Lost, 100*ms), Closed}},
		"a PONG between them does not": {miss, miss, {ms, pings(Answered, ms), Closed}, {patient, ends(Lost, patient), Open}},
		"a server that says three times that it is not ready is away": {{ms, ends(Loading, 0), Closed},
			{ms, ends(Loading, 0), Closed}, {ms, ends(Loading, 0), Open}},
		"a PONG opens it by half, and an answer closes it":   {away, back, {ms, ends(Answered, ms), Closed}},
		"a PING that fails keeps it open":                    {away, {100 * ms, pings(Lost, 0), Open}},
		"the batch of a half open one that is lost opens it": {away, back, {patient, ends(Lost, patient), Open}},
		"and so does one that is refused":                    {away, back, {ms, ends(Loading, ms), Open}},
		"what left before the PONG does not":                 {away, back, {ms, ends(Lost, 50*ms), HalfOpen}},
		"nor does it close it":                               {away, back, {ms, ends(Answered, 50*ms), HalfOpen}},
		"while it is open no exchange tells anything":        {away, {ms, ends(Answered, 0), Open}},
		"what tells nothing changes nothing": {{ms, ends(Unknown, ms), Closed}, {ms, ends(Unknown, ms), Closed},
			{ms, ends(Unknown, ms), Closed}},
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
func TestAnswersOutweighAFailedPing(t *testing.T) {
	t.Parallel()
	store(t, 1, testOut, func(t *testing.T, f *fake) {
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

// A server that froze after its PONG takes the trial's connection as long as the store allows. Until that is over
// nothing else is sent to it, so callers must not wait for as long.
func TestHalfOpenBatchConnectsWithinPingTimeout(t *testing.T) {
	t.Parallel()
	store(t, 2, testOut, func(t *testing.T, f *fake) {
		f.answerPings(func() (Outcome, error) { return Answered, nil })
		f.server.Note(Unreachable, time.Now(), errAway)
		time.Sleep(PingPause) // PONG
		trial, other := f.begin(t, 20*time.Millisecond, "a"), f.begin(t, ample, "bb")
		wantReason(t, <-trial, backend.Late)
		if n := len(f.got()); n != 1 {
			t.Errorf("%d batches are out, want one to both queues of a server that has only sent PONG", n)
		}
		f.answerPings(func() (Outcome, error) { return Lost, errAway })
		began := time.Now()
		wantReason(t, <-other, backend.Down)
		if took := time.Since(began); took != DialTimeout {
			t.Errorf("others waited %v after the caller of the trial had left, want %v", took, DialTimeout)
		}
	})
}

// The first exchange that a frozen server loses costs the connection that there was, and it greets no new one: whoever
// waits for that is lost, too, in a batch or before it.
func TestThreeLostExchangesOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for _, out := range []int{testOut, 1} { // so that all are in batches, or the second waits in the queue
		store(t, 1, out, func(t *testing.T, f *fake) {
			f.answerPings(func() (Outcome, error) { // which does not find out before
				time.Sleep(ample)
				return Lost, errAway
			})
			for n := 1; n <= tripAfter; n++ {
				time.Sleep(testPace)
				err := f.ask(t.Context(), 20*time.Millisecond, "a")
				synctest.Wait()
				if away := f.server.Away() != nil; away != (n == tripAfter) {
					t.Errorf("with %d out: after %d callers, one after the other, who left without an answer (%v) the server counts as "+
						"away: %v; want it from the third on", out, n, err, away)
				}
			}
			wantReason(t, f.ask(t.Context(), ample, "next"), backend.Down)
			if want := []State{Open}; !slices.Equal(f.changes, want) {
				t.Errorf("the changes that were told are %v, want %v", f.changes, want)
			}
		})
	}
}

// Batches from before may wait for the server as long as the store allows, and must not hold the trial.
func TestOlderBatchesDelayNoHalfOpenBatch(t *testing.T) {
	t.Parallel()
	for out, want := range map[int]int{testOut: testOut + 1, 1: 1} { // a queue's only batch has its only connection
		store(t, 1, out, func(t *testing.T, f *fake) {
			for range out {
				f.begin(t, ample, "a")
				time.Sleep(testPace)
			}
			f.answerPings(func() (Outcome, error) { return Answered, nil })
			f.server.Note(Unreachable, time.Now(), errAway)
			time.Sleep(PingPause) // PONG
			f.begin(t, ample, "trial")
			if n := len(f.got()); n != want {
				t.Errorf("of %d out, %d batches have left after PONG, want %d", out, n, want)
			}
		})
	}
}

// While the breaker is open nothing is sent but PINGs; after PONG one batch closes it, and each change is told once.
func TestPongAndAnswerCloseTheBreaker(t *testing.T) {
	t.Parallel()
	store(t, 1, testOut, func(t *testing.T, f *fake) {
		f.release()
		told := make(chan struct{}, 9)
		f.Notify(told)
		f.note = func(b *Batch[string]) { f.server.Note(Answered, b.Sent, nil) }
		f.server.Note(Unreachable, time.Now(), errAway)
		for range 10 {
			wantReason(t, f.ask(t.Context(), ample, "a"), backend.Down)
			time.Sleep(PingPause)
		}
		if n := len(f.got()); n > 0 {
			t.Errorf("%d batches were sent to a server that is away", n)
		}
		f.answerPings(func() (Outcome, error) { return Answered, nil })
		time.Sleep(2 * PingPause)
		if err := f.ask(t.Context(), ample, "a"); err != nil {
			t.Error(err)
		}
		if want := []State{Open, HalfOpen, Closed}; !slices.Equal(f.changes, want) || len(told) != len(want) {
			t.Errorf("the changes that were told are %v, and %d subscribers', want %v", f.changes, len(told), want)
		}
	})
}
