package export_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/export"
)

// recorder is what the exporter of a test drains, and knows all that it has been given.
type recorder struct {
	mu      sync.Mutex
	waiting map[history.ID]uint64
	all     map[history.ID]uint64
}

func newRecorder() *recorder {
	return &recorder{waiting: make(map[history.ID]uint64), all: make(map[history.ID]uint64)}
}

func (r *recorder) record(id history.ID, hits uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[id] += hits
	r.all[id] += hits
}

func (r *recorder) Drain(_ time.Time, yield func(history.ID, uint64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, hits := range r.waiting {
		yield(id, hits)
	}
	clear(r.waiting)
}

// station is an exporter at work in a bubble of fake time.
type station struct {
	*export.Exporter
	t        *testing.T
	recorder *recorder
	store    *trouble
	log      bytes.Buffer
	stop     func()
}

// atWork runs a test of an exporter in a bubble of fake time that begins at a moment of the day.
func atWork(t *testing.T, begin time.Duration, change func(*export.Config), test func(t *testing.T, s *station)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(begin)
		test(t, newStation(t, change))
	})
}

// newStation starts an exporter into a store in memory, which does as it should until the test says otherwise.
func newStation(t *testing.T, change func(*export.Config)) *station {
	ledgers := historytest.NewLedgers(historytest.Options{Retention: history.DefaultRetention(), Now: time.Now, Step: func(string) {}})
	s := &station{t: t, recorder: newRecorder(), store: &trouble{Ledgers: ledgers}}
	c := export.Config{Drain: s.recorder.Drain, Store: s.store, Log: slog.New(slog.NewTextHandler(&s.log, nil))}
	if change != nil {
		change(&c)
	}
	s.Exporter = export.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	s.stop = func() {
		cancel()
		running.Wait()
	}
	return s
}

// close ends the exporter as a process does that has so long for it, and checks that nothing has gone that is not
// counted.
func (s *station) close(timeout time.Duration) export.Stats {
	s.t.Helper()
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s.Close(ctx)
	st := s.Stats()
	want := st.Recorded - st.Lost - st.Refused
	for _, dropped := range st.Dropped {
		want -= dropped
	}
	if all := sum(s.recorder.all); st.Recorded != all {
		s.t.Errorf("%d hits were recorded, and the exporter says %d", all, st.Recorded)
	}
	if total := sum(s.total()); total != want {
		s.t.Errorf("the store has %d hits; want recorded − dropped − lost − refused, %d\n%+v", total, want, st)
	}
	return st
}

// idle checks that nothing waits, long after the last trouble.
func (s *station) idle() {
	s.t.Helper()
	if st := s.Stats(); st.Waiting != 0 {
		s.t.Errorf("%d cells wait; want none: the store takes all\n%+v", st.Waiting, st)
	}
}

// total is what the store has of each series.
func (s *station) total() map[history.ID]uint64 {
	all := make(map[history.ID]uint64)
	for id, series := range historytest.All(s.t, s.store) {
		all[id] = series.Lifetime
	}
	return all
}

func sum[K comparable](hits map[K]uint64) (sum uint64) {
	for _, n := range hits {
		sum += n
	}
	return sum
}

// series is one of many.
func series(n int) history.ID {
	return history.ID{Domain: "shop", Path: fmt.Sprint("rule", n/history.Outcomes), Outcome: history.Outcome(n % history.Outcomes)}
}

// sleepUntil sleeps to a moment of the day at which bubbles begin, 2000-01-01.
func sleepUntil(hour, minute, second int) {
	time.Sleep(time.Until(time.Date(2000, 1, 1, hour, minute, second, 0, time.UTC)))
}

func TestHitsCountInTheirIntervalsFirstMinute(t *testing.T) {
	atWork(t, 12*time.Hour+7*time.Second, nil, func(t *testing.T, s *station) { // in the middle of an interval
		for _, at := range []int{8, 14, 16, 44, 46, 59, 61, 74} { // seconds after 12:00
			sleepUntil(12, 0, at)
			s.recorder.record(series(0), 1)
		}
		time.Sleep(time.Minute)
		s.close(time.Second)
		points := historytest.All(t, s.store)[series(0)].Points
		noon := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC).Unix()
		want := []history.Point{{Start: noon, Sum: 6, Peak: 6}, {Start: noon + 60, Sum: 2, Peak: 2}}
		if fmt.Sprint(points) != fmt.Sprint(want) {
			t.Errorf("the store has %v; want %v: a flush ends on each border of a minute", points, want)
		}
		if got, _ := s.store.counts(); got != 5 {
			t.Errorf("%d batches; want one for each interval with hits, not one for each hit", got)
		}
	})
}

func TestHangingStoreBlocksNeitherRecordingNorShutdown(t *testing.T) {
	atWork(t, 0, nil, func(t *testing.T, s *station) {
		forever := make(chan struct{})
		s.store.set(func(context.Context, history.Partition) error { // not even its deadline wakes it
			<-forever
			return errors.New("too late")
		}, nil)
		for n := range 600 {
			s.recorder.record(series(n%50), 1)
			time.Sleep(time.Second)
		}
		st := s.Stats()
		if st.Recorded < 580 || st.Waiting == 0 {
			t.Errorf("beside a store that hangs: %+v; want 10 minutes recorded and waiting", st)
		}
		begin := time.Now()
		st = s.close(3 * time.Second)
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("shutdown took %v; want the 3 s that it had", took)
		}
		close(forever)
	})
}

// One of two servers hangs. What belongs to the other must be counted at each flush all the same.
func TestHangingServerDelaysNoOtherServer(t *testing.T) {
	atWork(t, 0, func(c *export.Config) { c.Timeout = 4700 * time.Millisecond }, func(t *testing.T, s *station) { // ends at no flush
		s.store.set(func(ctx context.Context, p history.Partition) error {
			if p < history.Partitions/2 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, nil)
		applied := func() (n int) {
			for id := range s.total() {
				if id.Partition() >= history.Partitions/2 {
					n++
				}
			}
			return n
		}
		record := func() {
			for n := range 2000 {
				s.recorder.record(series(n), 1)
			}
		}
		time.Sleep(14 * time.Second) // a second before a flush
		for range 20 {               // the first time that each outbox hangs comes one after the other
			record()
			time.Sleep(15 * time.Second)
		}
		record()
		before, _ := s.store.counts()
		had := applied()
		time.Sleep(time.Second + time.Millisecond)
		now, _ := s.store.counts()
		if got := now - before; got < 128 || had < 900 {
			t.Errorf("%d batches were applied within a flush, %d series before; want all 128 partitions of the server that answers", got, had)
		}
		s.store.set(nil, nil)
		s.close(time.Minute)
	})
}

func TestUnavailableStoreIsLoggedOnce(t *testing.T) {
	t.Parallel()
	atWork(t, 0, nil, func(t *testing.T, s *station) {
		s.store.set(func(context.Context, history.Partition) error { return errors.New("connection refused") }, nil)
		for n := range 300 {
			s.recorder.record(series(n), 1)
			time.Sleep(time.Second)
		}
		if !s.Stats().Down {
			t.Error("the store does not count as down")
		}
		s.store.set(nil, nil)
		time.Sleep(time.Minute)
		st := s.close(time.Second)
		_, failed := s.store.counts()
		if lines := strings.Count(s.log.String(), "\n"); lines != 2 || st.Down || failed < 100 ||
			!strings.Contains(s.log.String(), "connection refused") {
			t.Errorf("want one line when it went, with the reason, and one when it came back, after %d errors:\n%s", failed, &s.log)
		}
	})
}

func TestFullOutboxMergesHoursThenDropsHits(t *testing.T) {
	atWork(t, 6*time.Hour, func(c *export.Config) { c.MaxCells, c.Interval = 100, time.Minute }, func(t *testing.T, s *station) {
		s.store.set(func(context.Context, history.Partition) error { return errors.New("away") }, nil)
		record := func(minutes int) {
			for range minutes {
				for n := range 10 {
					s.recorder.record(series(n), 1)
				}
				time.Sleep(time.Minute)
			}
		}
		for _, phase := range []struct {
			minutes int
			dropped bool
			why     string
		}{
			{5, false, "50 cells hold 10 series for 5 minutes"},
			{4 * 60, false, "50 others hold them for 5 hours"},
			{2 * 60, true, "then they are full"},
		} {
			record(phase.minutes)
			st := s.Stats()
			if st.Waiting > 100 {
				t.Fatalf("%d cells wait; want at most 100", st.Waiting)
			}
			if (st.Dropped[export.Full] > 0) != phase.dropped {
				t.Errorf("after %d minutes more %d hits are dropped: %s", phase.minutes, st.Dropped[export.Full], phase.why)
			}
		}
		s.store.set(nil, nil)
		s.close(time.Second)
	})
}

func TestHitsBeyondASeriesMaximumAreDropped(t *testing.T) {
	atWork(t, 0, nil, func(t *testing.T, s *station) {
		for _, hits := range []uint64{history.MaxTotal, 5, math.MaxUint64/2 + 7} {
			s.recorder.record(series(0), hits)
			time.Sleep(15 * time.Second)
		}
		s.store.set(func(context.Context, history.Partition) error { return errors.New("away") }, nil)
		s.recorder.record(series(1), 7)
		time.Sleep(16 * time.Second)
		for range 2 {
			s.recorder.record(series(1), history.MaxTotal-10)
			time.Sleep(20 * time.Second)
		}
		s.store.set(nil, nil)
		time.Sleep(time.Minute)
		st := s.close(time.Second)
		if st.Dropped[export.TooLarge] == 0 || st.Refused == 0 {
			t.Errorf("%+v; want some hits refused by the store, and some that no cell could hold", st)
		}
	})
}

// After a failover that forgot, a writer that is idle hears of it only if it asks.
func TestIdleWriterResendsHitsLostInFailover(t *testing.T) {
	atWork(t, 0, nil, func(t *testing.T, s *station) {
		time.Sleep(time.Second)
		empty := s.store.Snapshot()
		for n := range 3 {
			s.recorder.record(series(0), uint64(n)+1)
			time.Sleep(15 * time.Second)
		}
		s.store.set(func(context.Context, history.Partition) error { return errors.New("failing over") }, nil)
		time.Sleep(5 * time.Minute) // far longer than batches are kept, but the store has not confirmed them since
		s.store.Restore(empty)
		s.store.set(nil, nil)
		time.Sleep(time.Minute)
		st := s.Stats()
		if !maps.Equal(s.total(), s.recorder.all) || st.Resent != 3 || st.Lost != 0 {
			t.Errorf("the store has %v, want %v; %+v: all three batches were kept", s.total(), s.recorder.all, st)
		}
		s.close(time.Second)
	})
}

func TestUnrecoverableFailoverLossIsCounted(t *testing.T) {
	t.Parallel()
	const sent = 1500
	for _, tc := range []struct {
		name string
		to   int // batches that the store has after the failover
	}{{"some batches", sent - 100}, {"batches that are known by one sum for all", 6}, {"everything", 0}} {
		t.Run(tc.name, func(t *testing.T) {
			atWork(t, 0, nil, func(t *testing.T, s *station) {
				var then historytest.Snapshot
				time.Sleep(time.Second) // not at the moment of a flush
				for n := range sent {
					if n == tc.to {
						then = s.store.Snapshot()
					}
					s.recorder.record(series(0), 7)
					time.Sleep(15 * time.Second)
				}
				time.Sleep(2 * time.Minute)
				s.store.Restore(then)
				s.recorder.record(series(0), 1)
				time.Sleep(30 * time.Second)
				s.idle()
				st := s.close(time.Second)
				if st.Lost == 0 || st.Lost > uint64(sent-tc.to)*7 {
					t.Errorf("%+v; want some %d batches of 7 hits lost", st, sent-tc.to)
				}
			})
		})
	}
}

// settling is a store that settles in its own way.
type settling struct {
	history.Store
	settle func(context.Context) error
}

func (s settling) WaitReplicated(ctx context.Context) error { return s.settle(ctx) }

// After the end of a writer nobody sends again what a failover forgets. So it ends only when a replica has it all, or
// says how much that replica may lack.
func TestCloseWaitsForReplicasOrCountsLoss(t *testing.T) {
	for _, tc := range []struct {
		name     string
		lag      time.Duration // of the replica
		failover bool          // while the writer ends
		settled  bool          // it ended in time
	}{{"a replica that follows", time.Second, false, true}, {"a failover in the midst of the end", time.Second, true, true},
		{"a replica that does not follow", time.Hour, false, false}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *station
				var replica historytest.Snapshot
				s = newStation(t, func(c *export.Config) {
					c.Store = settling{c.Store, func(ctx context.Context) error {
						if tc.failover {
							tc.failover = false
							s.store.Restore(replica)
						}
						select {
						case <-time.After(tc.lag):
							replica = s.store.Snapshot()
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					}}
				})
				replica = s.store.Snapshot()
				for n := range 3 { // within the minute that batches are kept
					s.recorder.record(series(n), uint64(n)+1)
					time.Sleep(15 * time.Second)
				}
				s.recorder.record(series(0), 100)
				st := s.close(5 * time.Second)
				s.store.Restore(replica)
				left := sum(s.total())
				if st.Recorded-left > st.Unreplicated || tc.settled != (st.Unreplicated == 0) {
					t.Errorf("after a failover %d of %d hits are left, and the writer ended with %+v: want it to have told of as many "+
						"as may be missing", left, st.Recorded, st)
				}
				if told := strings.Contains(s.log.String(), "the last hits in the history are not replicated"); told == tc.settled {
					t.Errorf("settled is %v, and the log says:\n%s", tc.settled, &s.log)
				}
			})
		})
	}
}

// A file has no replica: that the end came at once tells nothing of what it took.
func TestDurableStoreNeedsNoReplicas(t *testing.T) {
	for durable, warned := range map[bool]bool{true: false, false: true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStation(t, func(c *export.Config) { c.Durable = durable })
			s.recorder.record(series(0), 1)
			time.Sleep(16 * time.Second)
			st := s.close(0)
			if st.Applied != 1 || (st.Unreplicated > 0) != warned || strings.Contains(s.log.String(), "the last hits in the history are not replicated") != warned {
				t.Errorf("of a store that is durable: %v, the end is %+v, and the log says:\n%s", durable, st, &s.log)
			}
		})
	}
}

// A store forgets writers that it has not heard for a week. That is no loss.
func TestWriterIdleForAWeekLosesNothing(t *testing.T) {
	t.Parallel()
	atWork(t, 0, func(c *export.Config) { c.Interval = time.Hour }, func(t *testing.T, s *station) {
		s.recorder.record(series(0), 1)
		time.Sleep(8 * 24 * time.Hour)
		if _, err := s.store.Downsample(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		s.recorder.record(series(0), 1)
		st := s.close(time.Second)
		if st.Lost > 0 || st.Resent > 0 {
			t.Errorf("%+v; want no hit lost or sent again", st)
		}
	})
}

// Whatever a store does that may happen to one, all that was recorded is in it or accounted for, to the integer.
func TestLostHitsAreAlwaysCounted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		back  time.Duration // how far a failover may go back
		exact bool          // nothing may be lost
	}{{"failovers of less than a minute", 40 * time.Second, true}, {"failovers of half an hour", 30 * time.Minute, false}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(shortOr(1, 3)) {
				synctest.Test(t, func(t *testing.T) { walk(t, seed, tc.back, tc.exact) })
			}
		})
	}
}

// shortOr is the first in the short form, else the second.
func shortOr(short, long int) int {
	if testing.Short() {
		return short
	}
	return long
}

// walk is most of an hour of everything that can go wrong.
func walk(t *testing.T, seed uint64, back time.Duration, exact bool) {
	r := rand.New(rand.NewPCG(seed, 5))
	s := newStation(t, func(c *export.Config) {
		if !exact {
			c.MaxCells = 300
		}
	})
	s.store.set(nil, rand.New(rand.NewPCG(seed, 7)))
	var past []snapshot
	length := time.Duration(shortOr(40, 60)) * time.Minute
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Duration(r.Int64N(int64(20 * time.Second)))) {
		for range r.IntN(90) {
			s.recorder.record(series(r.IntN(60)), 1+r.Uint64N(50))
		}
		if !exact { // a reply may be lost that says that hits were refused, and they are in no store
			s.recorder.record(series(60), history.MaxTotal/40)
		}
		past = append(past, snapshot{time.Now(), s.store.Snapshot()})
		for time.Since(past[0].at) > back {
			past = past[1:]
		}
		if r.IntN(20) == 0 { // a state of the past comes back, and what followed it has never been
			to := r.IntN(len(past))
			s.store.Restore(past[to].state)
			past = past[:to+1]
		}
	}
	s.store.set(nil, nil)
	time.Sleep(3 * time.Minute)
	s.idle()
	st := s.close(time.Minute)
	if exact && !maps.Equal(s.total(), s.recorder.all) {
		t.Errorf("seed %d: the store has not what was recorded: %+v", seed, st)
	}
	if _, failed := s.store.counts(); failed == 0 || st.Resent == 0 || exact != (st.Lost == 0) || exact != (st.Refused == 0) {
		t.Errorf("seed %d: %+v; want errors and batches sent again, and losses exactly if failovers go back far", seed, st)
	}
}

type snapshot struct {
	at    time.Time
	state historytest.Snapshot
}
