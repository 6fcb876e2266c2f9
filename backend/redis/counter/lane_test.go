package counter

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// held is a stub that answers only when a test lets it, and the keys of each batch that it has.
type held struct {
	*stub
	release func() // from then on everything is answered

	mu      sync.Mutex
	batches [][]string
}

func hold(t *testing.T) *held {
	released := make(chan struct{})
	h := &held{release: sync.OnceFunc(func() { close(released) })}
	h.stub = newStub(t, func(_ int, command []string) string {
		n, _ := strconv.Atoi(command[2])
		h.mu.Lock()
		h.batches = append(h.batches, command[3:3+n])
		h.mu.Unlock()
		<-released
		return ones(command)
	})
	t.Cleanup(h.release)
	return h
}

func (h *held) got() [][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.batches)
}

// fill gives the lane as many batches as may be out, of a check each.
func (h *held) fill(t *testing.T, s *Store, calls *sync.WaitGroup) {
	t.Helper()
	for i := range maxOut {
		calls.Go(func() {
			if err := decide(s, ample, fmt.Sprint("first ", i)); err != nil {
				t.Error(err)
			}
		})
		wait(t, "batches leave although none comes back", func() bool { return len(h.got()) == i+1 })
	}
}

func waiting(s *Store) (n int) {
	for _, server := range s.Stats().Servers {
		n += server.Waiting
	}
	return n
}

func TestBatchesAreBoundedAndFirstInFirstOut(t *testing.T) {
	t.Parallel()
	server := hold(t)
	s := testStore(t, fixed{testClient(t, server.addr, ample)}, ample)
	var calls sync.WaitGroup
	server.fill(t, s, &calls)
	const more = 3*maxBatch + 10
	for i := range more {
		calls.Go(func() {
			if err := decide(s, ample, fmt.Sprintf("%03d", i)); err != nil {
				t.Error(err)
			}
		})
		wait(t, "it waits for a batch to come back", func() bool { return waiting(s) == i+1 })
	}
	if got := s.Stats().Servers[0].Out; got != maxOut || len(server.got()) != maxOut {
		t.Errorf("%d batches are out, %d at the server; want %d, as more would pile up there", got, len(server.got()), maxOut)
	}
	server.release()
	calls.Wait()

	var order []string
	for _, batch := range server.got()[maxOut:] {
		if len(batch) > maxBatch {
			t.Errorf("a batch of %d checks; want %d at most, as the server does nothing else meanwhile", len(batch), maxBatch)
		}
		order = append(order, batch...)
	}
	if len(order) != more {
		t.Errorf("%d checks arrived, want %d", len(order), more)
	}
	// Batches travel on connections of their own and may overtake each other; within one, the order is that of arrival.
	for _, batch := range server.got()[maxOut:] {
		if !slices.IsSorted(batch) {
			t.Errorf("a batch out of order: %q", batch)
		}
	}
}

func TestCallersWhoHaveLeftAreNotCounted(t *testing.T) {
	t.Parallel()
	server := hold(t)
	s := testStore(t, fixed{testClient(t, server.addr, ample)}, ample)
	var calls sync.WaitGroup
	server.fill(t, s, &calls)
	for range 5 {
		calls.Go(func() {
			err := decide(s, 40*time.Millisecond, "late", "late")
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("%v; want ErrUnavailable, as no batch could leave", err)
			}
		})
	}
	wait(t, "callers leave", func() bool { return s.Stats().Unavailable == 10 })
	server.release()
	calls.Wait()
	if err := decide(s, ample, "last"); err != nil {
		t.Error(err)
	}
	for _, batch := range server.got() {
		if slices.Contains(batch, plainKey("late")) {
			t.Error("a check was counted although its caller had left before the batch did")
		}
	}
	if got := s.Stats().Dropped; got != 10 {
		t.Errorf("the statistics tell of %d dropped checks, want 10", got)
	}
}

func TestAQueueThatCannotDrainAnswersAtOnce(t *testing.T) {
	t.Parallel()
	server := hold(t)
	client := testClient(t, server.addr, ample)
	s := testStore(t, fixed{client}, time.Hour)
	var calls sync.WaitGroup
	server.fill(t, s, &calls)
	l, err := s.lane(client)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.trip = maxOut * 2 * time.Minute // a batch comes back every two minutes
	l.mu.Unlock()
	calls.Go(func() { _ = decide(s, ample, slices.Repeat([]string{"a"}, maxBatch)...) })
	wait(t, "a full batch waits", func() bool { return waiting(s) == maxBatch })
	err = decide(s, ample, "next")
	if !errors.Is(err, errBusy) {
		t.Errorf("%v; want to be told at once that the queue takes two minutes", err)
	}
	calls.Go(func() {
		if err := decide(s, 5*time.Minute, "patient"); err != nil {
			t.Errorf("%v; whoever has five minutes may wait two", err)
		}
	})
	wait(t, "it waits", func() bool { return waiting(s) == maxBatch+1 })
	server.release()
	calls.Wait()
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	server := hold(t)
	s := testStore(t, fixed{testClient(t, server.addr, ample)}, ample)
	var calls sync.WaitGroup
	server.fill(t, s, &calls)
	for i := range maxQueue / maxBatch {
		calls.Go(func() { _ = decide(s, ample, slices.Repeat([]string{"a"}, maxBatch)...) })
		wait(t, "it waits", func() bool { return waiting(s) == (i+1)*maxBatch })
	}
	if err := decide(s, ample, "next"); !errors.Is(err, errBusy) {
		t.Errorf("%v; want to be refused, as memory is not endless", err)
	}
	server.release()
	calls.Wait()
}

// More checks than fit in one batch, every other one of one key: each must see those before it, whatever keys of their
// own are between them.
func TestChecksOfOneCallStayInOrder(t *testing.T) {
	t.Parallel()
	s := onServer(t, redistest.Single(t).Addr, ample)
	keys := slices.Repeat([]string{"again"}, 5*maxBatch+1)
	for i := 0; i < len(keys); i += 2 {
		keys[i] = fmt.Sprintf("%03d", i)
	}
	out := make([]backend.Decision, len(keys))
	if err := backend.DecideAll(t.Context(), s, hits(keys...), out); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		want := uint64(0)
		if i%2 == 1 {
			want = uint64(i / 2)
		}
		if out[i].Before != want {
			t.Errorf("check %d, of key %s, met %d hits, want %d: a key is charged in order", i, keys[i], out[i].Before, want)
		}
	}
}

// While the first batch of a large call is out, so are the others.
func TestALargeCallGoesAllAtOnce(t *testing.T) {
	t.Parallel()
	server := hold(t)
	s := testStore(t, fixed{testClient(t, server.addr, ample)}, ample)
	keys := make([]string, 5*maxBatch+1)
	for i := range keys {
		keys[i] = fmt.Sprintf("%03d", i)
	}
	var call sync.WaitGroup
	call.Go(func() {
		if err := decide(s, ample, keys...); err != nil {
			t.Error(err)
		}
	})
	wait(t, "all batches are at the server before one is answered", func() bool { return len(server.got()) == 6 })
	server.release()
	call.Wait()
	var all []string
	for _, batch := range server.got() {
		if len(batch) > maxBatch || !slices.IsSorted(batch) {
			t.Errorf("a batch of %d checks: %q; want %d at most, in order", len(batch), batch, maxBatch)
		}
		all = append(all, batch...)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != len(keys) {
		t.Errorf("%d checks arrived, want each of %d once", len(all), len(keys))
	}
}

func TestHowLargeCallsAreDivided(t *testing.T) {
	t.Parallel()
	key := func(i int) string { return fmt.Sprint("key ", i) }
	for name, c := range map[string]struct {
		n    int
		key  func(i int) string
		want []int
	}{
		"keys of their own":                 {130, key, []int{64, 64, 2}},
		"one key":                           {130, func(int) string { return "a" }, []int{64}},
		"a key that comes again":            {130, func(i int) string { return key(i % 100) }, []int{64, 36}},
		"one that does so in the same call": {100, func(i int) string { return key(i - i%2) }, []int{64, 36}},
	} {
		keys := make([]string, c.n)
		for i := range keys {
			keys[i] = c.key(i)
		}
		if got := sizesAtOnce(hits(keys...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d checks go in calls of %v at the same time, want %v", name, c.n, got, c.want)
		}
	}
}

func TestLanesOfServersThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	server := hold(t)
	server.release()
	s := testStore(t, fixed{testClient(t, server.addr, ample)}, ample)
	lanes := func(after time.Duration) int {
		s.making.Lock()
		s.retire(time.Now().Add(after))
		s.making.Unlock()
		return len(s.Stats().Servers)
	}
	for range 2 {
		if err := decide(s, ample, "a"); err != nil {
			t.Fatal(err)
		}
		if got := lanes(idleTime / 2); got != 1 {
			t.Fatalf("%d lanes half a minute after the last check, want 1", got)
		}
		wait(t, "a lane is forgotten a minute after its last check, as clusters and rings change", func() bool {
			return lanes(idleTime+ample) == 0
		})
	}
}

func TestAfterCloseNothingIsCounted(t *testing.T) {
	t.Parallel()
	server := hold(t)
	s := newStore(redis.Over(fixed{testClient(t, server.addr, ample)}, ample), nil, plainScript, plain)
	var calls sync.WaitGroup
	server.fill(t, s, &calls)
	calls.Go(func() {
		if err := decide(s, ample, "waits"); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("a check that waited gave %v, want ErrClosed", err)
		}
	})
	wait(t, "a check waits", func() bool { return waiting(s) == 1 })
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	wait(t, "the store closes", s.closed.Load)
	if err := decide(s, ample, "after"); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
	select {
	case <-closed:
		t.Error("Close did not wait for the batches that were out")
	case <-time.After(50 * time.Millisecond):
	}
	server.release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	calls.Wait() // what was out has its answers
	if got := server.count("evalsha"); got != maxOut {
		t.Errorf("%d batches arrived, want the %d that were out", got, maxOut)
	}
}
