package historyfire

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
)

var (
	kills = flag.Int("kills", 60, "how many writers and jobs are killed, in all tests together; a quarter in the short form")
	seed  = flag.Uint64("seed", 1, "seed of what is killed where and of what comes in")
)

// seriesCount is how many series there are. Some share a partition, as series do.
const seriesCount = 20

func seriesOf(n int) history.ID {
	return history.ID{Domain: "fire", Path: fmt.Sprint("rule", n), Outcome: history.Outcome(n % history.Outcomes)}
}

// numbers are the series by ID.
var numbers = func() map[history.ID]int {
	all := make(map[history.ID]int)
	for n := range seriesCount {
		all[seriesOf(n)] = n
	}
	return all
}()

// fire is one history, who works on it, and what it must hold.
type fire struct {
	t       *testing.T
	site    site
	store   *redishistory.Store // of the tests
	random  *rand.Rand
	tally   map[string]int // kills by what they hit
	started int
	writers []*worker // of this round
	// forgets is set if a server may forget what it has acknowledged: who was killed then cannot send it again.
	forgets bool
	counted [seriesCount]uint64
	batches int
	acks    atomic.Int64 // batches that were acknowledged
	gone    atomic.Int64 // answers of which a writer heard that a server has forgotten something
}

func newFire(t *testing.T, where site) *fire {
	t.Helper()
	where.Epoch = time.Now()
	f := &fire{t: t, site: where, tally: make(map[string]int), random: rand.New(rand.NewPCG(*seed, 3))}
	store, err := where.open(func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	f.store = store
	t.Logf("-seed %d", *seed)
	return f
}

// killOne starts a worker that dies at one of some steps, or is killed at a random instant: also where it does not come
// to its step soon.
func (f *fire) killOne(role string, steps []string) {
	f.t.Helper()
	die, nth, wait := steps[f.random.IntN(len(steps))], 1+f.random.Int64N(3), 500*time.Millisecond
	if die == anyStep {
		nth = 1 + f.random.Int64N(40)
	}
	how := "at step " + die
	if f.random.IntN(4) == 0 {
		die, wait = "", time.Duration(30+f.random.IntN(120))*time.Millisecond
	}
	w := f.start(role, die, nth)
	select {
	case <-w.ended:
	case <-time.After(wait):
		how = "at a random instant"
		w.kill()
	}
	w.await()
	f.tally[role+" "+how]++
}

var stepsOf = map[string][]string{
	"writer": {anyStep, "apply", "applied", "roll 1m", "rolled 1m", "roll 5m", "rolled 5m"},
	"job": {anyStep, anyStep, anyStep, anyStep, "roll 1m", "rolled 1m", "roll 5m", "rolled 5m", "roll 1h", "rolled 1h", "roll 1d",
		"rolled 1d", "forget", "forgot"},
}

// burn kills so many writers and jobs beside two writers and a job that live, has the servers disturbed in the midst of
// it, and compares every series when all writers have ended.
func (f *fire) burn(kills int, disturb func(), end func(drain func())) {
	f.t.Helper()
	lives := []*worker{f.start("writer", "", 0), f.start("writer", "", 0), f.start("job", "", 0)}
	var done atomic.Bool
	var reading sync.WaitGroup
	reading.Go(func() {
		for !done.Load() {
			err := f.store.Query(f.t.Context(), historytest.Everything(), func(s history.Series) error {
				if !s.Exact() {
					f.t.Errorf("-seed %d, in the midst of it %+v does not add up: %v", *seed, s, s.Err)
				}
				return nil
			})
			_ = err // a server is away, or a slot is on its way
			time.Sleep(20 * time.Millisecond)
		}
	})
	for n := range kills {
		if n == kills/2 {
			disturb()
		}
		role := []string{"writer", "job"}[n%2]
		f.killOne(role, stepsOf[role])
	}
	end(func() {
		for _, w := range lives {
			w.stop()
			w.await()
		}
	})
	done.Store(true)
	reading.Wait()
	f.exact()
}

// exact audits the writers of a round, all of which have ended, and compares each series with them.
func (f *fire) exact() {
	f.t.Helper()
	for _, w := range f.writers {
		f.audit(w)
	}
	f.writers = nil
	found := make(map[int]uint64)
	f.answers(func() error {
		return f.store.Query(f.t.Context(), historytest.Everything(), func(s history.Series) error {
			if found[numbers[s.ID]] = s.Lifetime; !s.Exact() {
				f.t.Errorf("-seed %d: %+v does not add up: P1 is broken", *seed, s)
			}
			return s.Err
		})
	})
	for n, want := range f.counted {
		if got := found[n]; got != want {
			f.t.Errorf("-seed %d: %+v has a lifetime of %d hits, and %d were counted: P2 is broken by %d", *seed, seriesOf(n), got, want,
				int64(got-want))
		}
	}
}

// answers repeats a question until the tests' own store has noticed that all servers are back.
func (f *fire) answers(ask func() error) {
	f.t.Helper()
	redistest.Eventually(f.t, "the history answers once all servers are back", ask)
}

// audit asks how far a writer's batches have been counted, adds them to what the series must hold, and wants P2 of one
// that has drained: what it recorded is counted, to the integer.
func (f *fire) audit(w *worker) {
	f.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	counted := uint64(0)
	for p, box := range w.outboxes {
		var at history.ApplyResult
		f.answers(func() (err error) {
			at, err = f.store.Apply(f.t.Context(), p, history.Batch{Writer: box.writer})
			return err
		})
		if at.Last > uint64(len(box.sent)) || at.Last < box.acked && !(w.killed.Load() && f.forgets) {
			f.t.Errorf("-seed %d: partition %d has %d batches of a writer that sent %d and had %d acknowledged",
				*seed, p, at.Last, len(box.sent), box.acked)
			return
		}
		f.batches += int(at.Last)
		for _, batch := range box.sent[:at.Last] {
			for _, i := range batch.Increments {
				f.counted[numbers[i.ID]] += i.Hits
				counted += i.Hits
			}
		}
	}
	if !w.killed.Load() && (w.recorded != w.exported || w.left > 0 || w.recorded != counted) {
		f.t.Errorf("-seed %d: a writer recorded %d hits, its exporter %d, of which it has not brought %d; %d were counted",
			*seed, w.recorded, w.exported, w.left, counted)
	}
}

// finish rolls what is left to roll, compares once more, and says what was killed where.
func (f *fire) finish() {
	f.t.Helper()
	f.answers(func() error {
		_, err := f.store.Roll(context.Background(), history.Job{Now: f.site.now()})
		return err
	})
	f.exact()
	for _, how := range slices.Sorted(maps.Keys(f.tally)) {
		f.t.Logf("  %4d  %s", f.tally[how], how)
	}
	if f.forgets && f.gone.Load() == 0 {
		f.t.Error("no server has forgotten anything, so this has shown nothing")
	}
	f.t.Logf("%d batches were counted; writers heard %d times that some were forgotten; the clock went by %v",
		f.batches, f.gone.Load(), f.site.now().Sub(start).Round(time.Hour))
}

// awaitAcks waits until so many more batches have been acknowledged.
func (f *fire) awaitAcks(n int64) {
	f.t.Helper()
	want := f.acks.Load() + n
	redistest.Until(f.t, fmt.Sprintf("writers have %d batches acknowledged", n), func() bool {
		return f.acks.Load() >= want
	})
}
