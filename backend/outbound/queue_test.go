package outbound

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
)

func TestBatchesAreBoundedAndInOrder(t *testing.T) {
	t.Parallel()
	testServer(t, 1, testMaxInFlight, func(t *testing.T, f *fake) {
		f.fillQueue(t)
		var want []string
		for i := range 3*maxBatch + 10 {
			key := fmt.Sprintf("%03d", i)
			want = append(want, key)
			f.decideAsync(t, longTimeout, key)
		}
		if n := len(f.sentBatches()); n != testMaxInFlight || f.waiting() != len(want) {
			t.Errorf("%d batches are out, and %d checks wait; want %d and %d, as more would pile up at the server", n, f.waiting(),
				testMaxInFlight, len(want))
		}
		f.release()
		time.Sleep(time.Second)
		var all []string
		for _, batch := range f.sentBatches()[testMaxInFlight:] {
			if len(batch) > maxBatch || !slices.IsSorted(batch) {
				t.Errorf("a batch of %d checks: %q; want %d at most, in order", len(batch), batch, maxBatch)
			}
			all = append(all, batch...)
		}
		if slices.Sort(all); !slices.Equal(all, want) {
			t.Errorf("%d checks arrived, want each of %d once", len(all), len(want))
		}
	})
}

// Requeued requests come first in the next batch, together with newer ones, unless their caller has left.
func TestRetriesLeadTheNextBatch(t *testing.T) {
	t.Parallel()
	for leaves, want := range map[bool][][]string{
		false: {{"again"}, {"again", "meanwhile"}}, true: {{"again"}, {"meanwhile"}},
	} {
		testServer(t, 1, 1, func(t *testing.T, f *fake) {
			f.requeues = 1
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			again := make(chan error, 1)
			go func() { again <- f.decide(ctx, longTimeout, "again") }()
			synctest.Wait()
			meanwhile := f.decideAsync(t, longTimeout, "meanwhile")
			if leaves {
				leave()
				wantReason(t, <-again, backend.Late)
				again <- nil
			}
			f.release()
			if err := errors.Join(<-again, <-meanwhile); err != nil || !slices.EqualFunc(f.sentBatches(), want, slices.Equal) {
				t.Errorf("%v; the batches are %q, want %q", err, f.sentBatches(), want)
			}
		})
	}
}

func TestChecksWithoutCallersAreNotCounted(t *testing.T) {
	t.Parallel()
	testServer(t, 1, testMaxInFlight, func(t *testing.T, f *fake) {
		f.fillQueue(t)
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 5)
		for range cap(done) {
			go func() { done <- f.decide(ctx, longTimeout, "left", "left") }()
		}
		if n := f.waiting(); n != 10 {
			t.Fatalf("%d checks wait, want 10", n)
		}
		leave()
		for range cap(done) {
			wantReason(t, <-done, backend.Late)
		}
		f.release()
		if err := f.decide(t.Context(), longTimeout, "last"); err != nil {
			t.Error(err)
		}
		for _, batch := range f.sentBatches() {
			if slices.Contains(batch, "left") {
				t.Error("a check was counted although its caller had left before the batch did")
			}
		}
		if n, none := f.Dropped.Load(), f.Unavailable.Load(); n != 10 || none != 10 {
			t.Errorf("the totals tell of %d dropped checks and %d without an answer, want 10 and 10", n, none)
		}
	})
}

func TestBlockedQueueAnswersAtOnce(t *testing.T) {
	t.Parallel()
	testServer(t, 1, testMaxInFlight, func(t *testing.T, f *fake) {
		f.fillQueue(t)
		f.server.mu.Lock()
		f.server.Queues[0].roundTrip = testMaxInFlight * 2 * time.Minute // a batch comes back every two minutes
		f.server.mu.Unlock()
		f.decideAsync(t, longTimeout, slices.Repeat([]string{"a"}, maxBatch)...)
		began := time.Now()
		wantReason(t, f.decide(t.Context(), longTimeout, "next"), backend.Busy)
		if took := time.Since(began); took > 0 {
			t.Errorf("a caller waited %v to be told that the queue takes two minutes", took)
		}
		slow := f.decideAsync(t, 5*time.Minute, "whoever has five minutes may wait two")
		f.release()
		if err := <-slow; err != nil {
			t.Error(err)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	testServer(t, 1, testMaxInFlight, func(t *testing.T, f *fake) {
		f.fillQueue(t)
		for range maxQueue / maxBatch {
			f.decideAsync(t, longTimeout, slices.Repeat([]string{"a"}, maxBatch)...)
		}
		wantReason(t, f.decide(t.Context(), longTimeout, "next"), backend.Busy)
		if n := f.waiting(); n != maxQueue {
			t.Errorf("%d checks wait, want %d at most, as memory is not endless", n, maxQueue)
		}
	})
}

func TestNothingIsCountedAfterClose(t *testing.T) {
	t.Parallel()
	testServer(t, 1, testMaxInFlight, func(t *testing.T, f *fake) {
		f.fillQueue(t)
		waits := f.decideAsync(t, longTimeout, "waits")
		f.close(backend.ErrClosed)
		if err := <-waits; !errors.Is(err, backend.ErrClosed) {
			t.Errorf("a check that waited gave %v, want ErrClosed", err)
		}
		if err := f.decide(t.Context(), longTimeout, "after"); !errors.Is(err, backend.ErrClosed) {
			t.Errorf("after Close: %v, want ErrClosed", err)
		}
		ended := make(chan struct{})
		go func() {
			f.Wait()
			close(ended)
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("Wait did not wait for the batches that were out")
		default:
		}
		f.release()
		<-ended
		if n := len(f.sentBatches()); n != testMaxInFlight {
			t.Errorf("%d batches arrived, want the %d that were out", n, testMaxInFlight)
		}
	})
}

func TestIdleServersAreRetired(t *testing.T) {
	t.Parallel()
	testServer(t, 1, testMaxInFlight, func(t *testing.T, f *fake) {
		f.release()
		if err := f.decide(t.Context(), longTimeout, "a"); err != nil {
			t.Fatal(err)
		}
		left := func() bool { t.Error("a server that answers was asked whether it has left"); return true }
		synctest.Wait()
		time.Sleep(idleTime - time.Millisecond)
		if f.server.Retire(time.Now(), left) {
			t.Error("it was retired before it was idle for a minute")
		}
		time.Sleep(time.Millisecond)
		if !f.server.Retire(time.Now(), left) {
			t.Error("it was kept though it was idle for a minute")
		}
	})
}

// An exchange has checks of several callers: Trace gets each check's own context.
func TestTraceGetsEachChecksContext(t *testing.T) {
	type name struct{}
	testServer(t, 1, 1, func(t *testing.T, f *fake) {
		var told [][]any
		var ends []string
		f.config.Trace = func(server string, callers iter.Seq[context.Context]) func(string, error) {
			var names []any
			for ctx := range callers {
				names = append(names, ctx.Value(name{}))
			}
			told = append(told, names)
			return func(outcome string, err error) { ends = append(ends, fmt.Sprint(server, " ", outcome, " ", err)) }
		}
		var waits []chan error
		begin := func(who string, keys ...string) {
			waits = append(waits, make(chan error, 1))
			wait := waits[len(waits)-1]
			go func() { wait <- f.decide(context.WithValue(t.Context(), name{}, who), longTimeout, keys...) }()
			synctest.Wait()
		}
		begin("first", "a")
		begin("ann", "b", "c")
		begin("bob", "d")
		f.release()
		for _, wait := range waits {
			if err := <-wait; err != nil {
				t.Error(err)
			}
		}
		if want := [][]any{{"first"}, {"ann", "ann", "bob"}}; !reflect.DeepEqual(told, want) {
			t.Errorf("the exchanges are of %v, want %v", told, want)
		}
		if want := []string{"server answered <nil>", "server answered <nil>"}; !slices.Equal(ends, want) {
			t.Errorf("they ended as %q, want %q", ends, want)
		}
		f.config.Trace = nil
		if n := testing.AllocsPerRun(100, func() { f.server.Trace(nil)("", nil) }); n != 0 {
			t.Errorf("an exchange that nobody traces costs %v allocations, want none", n)
		}
	})
}
