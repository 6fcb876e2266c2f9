package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// held is a stub that answers only when a test lets it, the keys of each batch it has, and a pipeline that asks it.
type held struct {
	*redistest.Stub
	pipeline *Pipeline
	release  func() // from then on everything is answered
	calls    sync.WaitGroup

	mu      sync.Mutex
	batches [][]string
}

func hold(t *testing.T) *held { return holdAndThen(t, redistest.Answers(nil)) }

// holdAndThen gives other answers than ones.
func holdAndThen(t *testing.T, answer func(n int, command []string) string) *held {
	released := make(chan struct{})
	h := &held{release: sync.OnceFunc(func() { close(released) })}
	h.Stub = redistest.NewStub(t, func(n int, command []string) string {
		if command[0] == "evalsha" {
			keys, _ := strconv.Atoi(command[2])
			h.mu.Lock()
			h.batches = append(h.batches, command[3:3+keys])
			h.mu.Unlock()
			<-released
		}
		return answer(n, command)
	})
	t.Cleanup(h.release)
	h.pipeline = testPipeline(t, h.Addr, ample)
	return h
}

func (h *held) got() [][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.batches)
}

// ask makes a call, which is to be answered.
func (h *held) ask(t *testing.T, keys ...string) {
	h.calls.Go(func() {
		if err := decide(h.pipeline, ample, keys...); err != nil {
			t.Error(err)
		}
	})
}

// fill gives the queue as many batches as may be out, of a check each.
func (h *held) fill(t *testing.T) {
	t.Helper()
	for i := range maxOut {
		h.ask(t, fmt.Sprint("first ", i))
		redistest.Until(t, "batches leave although none comes back", func() bool { return len(h.got()) == i+1 })
	}
}

// finish answers everything, and waits for the callers.
func (h *held) finish() {
	h.release()
	h.calls.Wait()
}

// numbered are so many keys in order.
func numbered(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%03d", i))
	}
	return keys
}

func waiting(p *Pipeline) (n int) {
	for _, server := range p.Stats().Servers {
		n += server.Waiting
	}
	return n
}

func TestBatchesAreBoundedAndFirstInFirstOut(t *testing.T) {
	t.Parallel()
	server := hold(t)
	server.fill(t)
	const more = 3*maxBatch + 10
	for i, key := range numbered(more) {
		server.ask(t, key)
		redistest.Until(t, "it waits for a batch to come back", func() bool { return waiting(server.pipeline) == i+1 })
	}
	if got := server.pipeline.Stats().Servers[0].Out; got != maxOut || len(server.got()) != maxOut {
		t.Errorf("%d batches are out, %d at the server; want %d, as more would pile up there", got, len(server.got()), maxOut)
	}
	server.finish()
	wantBatches(t, server.got()[maxOut:], more)
}

// wantBatches wants so many checks in batches that are not too large. Batches travel on connections of their own and
// may overtake each other; within one, the order is that of arrival.
func wantBatches(t *testing.T, batches [][]string, checks int) {
	t.Helper()
	var all []string
	for _, batch := range batches {
		if len(batch) > maxBatch || !slices.IsSorted(batch) {
			t.Errorf("a batch of %d checks: %q; want %d at most, as the server does nothing else meanwhile, in order",
				len(batch), batch, maxBatch)
		}
		all = append(all, batch...)
	}
	slices.Sort(all)
	if len(all) != checks || len(slices.Compact(all)) != checks {
		t.Errorf("%d checks arrived, want each of %d once", len(all), checks)
	}
}

func TestCallersWhoHaveLeftAreNotCounted(t *testing.T) {
	t.Parallel()
	server := hold(t)
	p := server.pipeline
	server.fill(t)
	ctx, leave := context.WithCancel(t.Context())
	for range 5 {
		server.calls.Go(func() {
			err := decideUntil(ctx, p, "late", "late")
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("%v; want ErrUnavailable, as no batch could leave", err)
			}
		})
	}
	redistest.Until(t, "all wait for a batch to come back", func() bool { return waiting(p) == 10 })
	leave()
	redistest.Until(t, "callers leave", func() bool { return p.Stats().Unavailable == 10 })
	server.finish()
	if err := decide(p, ample, "last"); err != nil {
		t.Error(err)
	}
	for _, batch := range server.got() {
		if slices.Contains(batch, redistest.SumKey("late")) {
			t.Error("a check was counted although its caller had left before the batch did")
		}
	}
	if got := p.Stats().Dropped; got != 10 {
		t.Errorf("the statistics tell of %d dropped checks, want 10", got)
	}
}

// A batch that has to be sent again leaves without the checks whose callers have gone meanwhile: nobody would hear of
// their answers, and they would count.
func TestWhoHasLeftIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"after the script was loaded": "-NOSCRIPT No matching script.\r\n",
		"after a pause":               "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(t.Context())
			left := make(chan struct{})
			server := holdAndThen(t, func(n int, command []string) string {
				switch {
				case command[0] != "evalsha":
					return "+OK\r\n"
				case n == maxOut+1: // both are in this batch
					leave()
					<-left
					return reply
				}
				return redistest.Ones(command)
			})
			p := server.pipeline
			server.fill(t) // so that all who come after are in one batch
			server.ask(t, "patient")
			server.calls.Go(func() {
				defer close(left)
				if err := decideUntil(ctx, p, "hasty"); !errors.Is(err, ErrUnavailable) || backend.ReasonOf(err) != backend.Late {
					t.Errorf("%v, for the reason %v; want to be late", err, backend.ReasonOf(err))
				}
			})
			redistest.Until(t, "both wait", func() bool { return waiting(p) == 2 })
			server.finish()
			sent := server.got()
			if last := sent[len(sent)-1]; !slices.Equal(last, []string{redistest.SumKey("patient")}) {
				t.Errorf("at last %q were sent, want only the check of the caller who waits", last)
			}
			if p.Stats().Dropped != 1 {
				t.Errorf("%d checks were dropped, want one", p.Stats().Dropped)
			}
		})
	}
}

func TestAQueueThatCannotDrainAnswersAtOnce(t *testing.T) {
	t.Parallel()
	server := hold(t)
	p := testPipeline(t, server.Addr, time.Hour)
	server.pipeline = p
	server.fill(t)
	q, err := p.ownerQueue(nil)
	if err != nil {
		t.Fatal(err)
	}
	q.mu.Lock()
	q.roundTrip = maxOut * 2 * time.Minute // a batch comes back every two minutes
	q.mu.Unlock()
	server.calls.Go(func() { _ = decide(p, ample, slices.Repeat([]string{"a"}, maxBatch)...) })
	redistest.Until(t, "a full batch waits", func() bool { return waiting(p) == maxBatch })
	if err := decide(p, ample, "next"); !errors.Is(err, errBusy) {
		t.Errorf("%v; want to be told at once that the queue takes two minutes", err)
	}
	server.calls.Go(func() {
		if err := decide(p, 5*time.Minute, "patient"); err != nil {
			t.Errorf("%v; whoever has five minutes may wait two", err)
		}
	})
	redistest.Until(t, "it waits", func() bool { return waiting(p) == maxBatch+1 })
	server.finish()
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	server := hold(t)
	server.fill(t)
	for i := range maxQueue / maxBatch {
		server.calls.Go(func() { _ = decide(server.pipeline, ample, slices.Repeat([]string{"a"}, maxBatch)...) })
		redistest.Until(t, "it waits", func() bool { return waiting(server.pipeline) == (i+1)*maxBatch })
	}
	if err := decide(server.pipeline, ample, "next"); !errors.Is(err, errBusy) {
		t.Errorf("%v; want to be refused, as memory is not endless", err)
	}
	server.finish()
}

// Every other check is of one key: each must see those before it, whatever keys of their own are between them.
func TestChecksOfOneCallStayInOrder(t *testing.T) {
	t.Parallel()
	p := testPipeline(t, redistest.Single(t).Addr, ample)
	keys := numbered(maxBatch)
	for i := 1; i < len(keys); i += 2 {
		keys[i] = "again"
	}
	out := make([]backend.Decision, len(keys))
	if err := p.Decide(t.Context(), redistest.Hits(keys...), out); err != nil {
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

func TestQueuesOfServersThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	server := hold(t)
	server.release()
	p := server.pipeline
	queues := func(after time.Duration) int {
		p.retire(time.Now().Add(after))
		return len(p.Stats().Servers)
	}
	for range 2 {
		if err := decide(p, ample, "a"); err != nil {
			t.Fatal(err)
		}
		if got := queues(idleTime / 2); got != 1 {
			t.Fatalf("%d queues half a minute after the last check, want 1", got)
		}
		redistest.Until(t, "a queue is forgotten a minute after its last check", func() bool {
			return queues(idleTime+ample) == 0
		})
	}
}

func TestAfterCloseNothingIsCounted(t *testing.T) {
	t.Parallel()
	server := hold(t)
	p := server.pipeline
	server.fill(t)
	server.calls.Go(func() {
		if err := decide(p, ample, "waits"); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("a check that waited gave %v, want ErrClosed", err)
		}
	})
	redistest.Until(t, "a check waits", func() bool { return waiting(p) == 1 })
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	redistest.Until(t, "the pipeline closes", p.closed.Load)
	if err := decide(p, ample, "after"); !errors.Is(err, backend.ErrClosed) {
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
	server.calls.Wait() // what was out has its answers
	if got := server.Count("evalsha"); got != maxOut {
		t.Errorf("%d batches arrived, want the %d that were out", got, maxOut)
	}
}
