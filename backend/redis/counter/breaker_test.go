package counter

import (
	"errors"
	"testing"
	"time"
)

// event is something that a breaker is told, so long after the one before.
type event struct {
	after time.Duration
	tell  func(b *breaker, now time.Time)
	want  condition
}

const patient = 18 * time.Millisecond // what is left of Envoy's 20 ms

// ends is an exchange that began so long ago.
func ends(o outcome, took time.Duration) func(*breaker, time.Time) {
	return func(b *breaker, now time.Time) {
		b.leaves(patient, now.Add(-took))
		b.hears(o, now.Add(-took), patient, now)
	}
}

// pings is a PING that is over: it took so long, or failed.
func pings(took time.Duration, err error) func(*breaker, time.Time) {
	return func(b *breaker, now time.Time) { b.pinged(err, took, now.Add(-took), now) }
}

var errSilent = errors.New("silence")

func TestTheBreaker(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	miss := event{patient, ends(lost, patient), serving}
	away := event{0, ends(unreachable, 0), absent}
	back := event{100 * ms, pings(ms, nil), returning}
	for name, events := range map[string][]event{
		"a refused connection opens it at once":              {away},
		"three exchanges in a row without an answer open it": {miss, miss, {patient, ends(lost, patient), absent}},
		"an answer between them keeps it closed":             {miss, miss, {ms, ends(answered, ms), serving}, miss, miss},
		"three that overlap are one, as when the machine stands still": {miss, {0, ends(lost, patient), serving},
			{ms, ends(lost, patient), serving}, {0, ends(lost, patient), serving}},
		"a PING that fails after the first opens it": {miss, {100 * ms, pings(100*ms, errSilent), absent}},
		"an answer during that PING outweighs it": {miss, {50 * ms, ends(answered, ms), serving},
			{50 * ms, pings(100*ms, errSilent), serving}},
		"a PONG in time forgets what was lost": {miss, miss, {ms, pings(ms, nil), serving}, miss, miss},
		"a late PONG does not":                 {miss, miss, {50 * ms, pings(50*ms, nil), serving}, {patient, ends(lost, patient), absent}},
		"a server that says three times that it is not ready is away": {{ms, ends(unready, 0), serving},
			{ms, ends(unready, 0), serving}, {ms, ends(unready, 0), absent}},
		"a PONG opens it by half, and an answer closes it":   {away, back, {ms, ends(answered, ms), serving}},
		"a PONG later than its callers wait keeps it open":   {away, {100 * ms, pings(50*ms, nil), absent}},
		"a PING that fails keeps it open":                    {away, {100 * ms, pings(0, errSilent), absent}},
		"the batch of a half open one that is lost opens it": {away, back, {patient, ends(lost, patient), absent}},
		"and so does one that is refused":                    {away, back, {ms, ends(unready, ms), absent}},
		"what left before the PONG does not":                 {away, back, {ms, ends(lost, 50*ms), returning}},
		"nor does it close it":                               {away, back, {ms, ends(answered, 50*ms), returning}},
		"while it is open no exchange tells anything":        {away, {ms, ends(answered, 0), absent}},
		"what tells nothing changes nothing": {{ms, ends(untold, ms), serving}, {ms, ends(untold, ms), serving},
			{ms, ends(untold, ms), serving}},
	} {
		t.Run(name, func(t *testing.T) {
			b, now := new(breaker), time.Unix(1_000_000, 0)
			for i, e := range events {
				now = now.Add(e.after)
				e.tell(b, now)
				if b.condition != e.want {
					t.Fatalf("after event %d it is in condition %d, want %d", i+1, b.condition, e.want)
				}
			}
		})
	}
}

// Callers in a hurry shall not keep others from a server that is quick enough for them. One that was quick enough for all
// of them and is silent now is none.
func TestHurriedCallersDoNotOpenTheBreakerForOthers(t *testing.T) {
	t.Parallel()
	b, now := &breaker{slow: true}, time.Unix(1_000_000, 0)
	if b.limit() != leastPatience {
		t.Errorf("PONG may take %v before anybody called, want %v", b.limit(), leastPatience)
	}
	b.leaves(100*time.Millisecond, now)
	for range 10 {
		now = now.Add(20 * time.Millisecond)
		b.leaves(patient, now)
		b.hears(lost, now.Add(-patient), patient, now)
	}
	if b.condition != serving {
		t.Error("exchanges of callers who wait 18 ms opened it, while others wait 100 ms")
	}
	if b.limit() != 100*time.Millisecond {
		t.Errorf("PONG may take %v, want as long as the most patient caller waits", b.limit())
	}
	prompt := *b
	prompt.slow = false
	for i := range lostMost {
		prompt.hears(lost, now.Add(time.Duration(i)*patient), patient, now.Add(time.Duration(i+1)*patient))
	}
	if prompt.condition != absent {
		t.Error("a server that was prompt has lost three exchanges in a row, and answered nobody; want it to be open")
	}
	now = now.Add(3 * patienceSpan) // in which those others do not come
	for range 3 {
		now = now.Add(20 * time.Millisecond)
		b.leaves(patient, now.Add(-patient))
		b.hears(lost, now.Add(-patient), patient, now)
	}
	if b.condition != absent {
		t.Error("three exchanges in a row were lost, and nobody waits longer; want it to be open")
	}
}

// A hurried caller's loss alone leaves the breaker calm, so that answers are not looked at. The PING that it leads to may
// fail while patient callers are answered: a server that takes no new connections, and serves those that it has.
func TestAnswersOutweighAPingThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	l := laneToNobody(t)
	now := time.Now()
	l.learn(now, errLate, func() {
		l.breaker.leaves(time.Hour, now)
		l.breaker.hears(lost, now, patient, now)
		l.probing = true // as probe does
	})
	l.heard(answered, now, time.Hour, nil)
	l.learn(now, errSilent, func() {
		l.breaker.pinged(errSilent, time.Hour, now, now)
		l.probing = false
	})
	if l.breaker.condition != serving {
		t.Error("a PING that failed has opened the breaker, although patient callers were answered meanwhile")
	}
}

// A server that froze after its PONG takes the trial's connection as long as the store allows. Until that is over nothing
// else is sent to it, so callers must not wait for as long.
func TestATrialHasAsLongForItsConnectionAsPING(t *testing.T) {
	t.Parallel()
	l := laneToNobody(t)
	now := time.Now()
	trial := &batch{left: now.Add(-2*leastGreeting - patient), until: now.Add(-2 * leastGreeting)}
	l.mu.Lock()
	l.breaker.become(returning, trial.left)
	l.breaker.leaves(patient, trial.left)
	l.trial, l.out = trial, []*batch{trial}
	l.mu.Unlock()
	l.miss()
	if l.away.Load() == nil {
		t.Errorf("%v after its callers left, a trial still waits for a connection; want callers to be told that the server is away",
			2*leastGreeting)
	}
}

// The first exchange that a frozen server loses costs the connection that there was, and it greets no new one: whoever
// waits for that is lost, too, in a batch or before it. Where the server was prompt, others' patience changes nothing.
func TestThreeLostExchangesOpenTheBreaker(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		queued bool
		others time.Duration
	}{{"in batches", false, patient}, {"in the queue", true, patient}, {"beside a patient caller", false, time.Second}} {
		l := laneToNobody(t)
		l.mu.Lock()
		l.probing = true // no PING finds out before
		l.breaker.leaves(tc.others, time.Now())
		l.mu.Unlock()
		left := time.Now().Add(-time.Second)
		for n := 1; n <= lostMost; n++ {
			until := left.Add(patient)
			l.mu.Lock()
			if l.out = []*batch{{left: left, until: until}}; tc.queued {
				waits := &call{leave: until, done: make(chan struct{}, 2)}
				l.queue = queue{{call: waits, joined: left, count: 1}}
				l.out = nil
				l.most = 0
			}
			l.mu.Unlock()
			if l.miss(); (l.away.Load() != nil) != (n == lostMost) {
				t.Errorf("%s: after %d callers, one after the other, who left without a connection the server counts as away: %v; want it "+
					"from the third on", tc.name, n, l.away.Load() != nil)
			}
			left = until
		}
	}
}

// laneToNobody is a lane to a server that no connection leads to.
func laneToNobody(t *testing.T) *lane {
	t.Helper()
	client := testClient(t, "127.0.0.1:1", ample)
	l, err := testStore(t, fixed{client}, ample).lane(client)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
