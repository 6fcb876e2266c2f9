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
	store(t, 1, testOut, func(t *testing.T, f *fake) {
		f.fill(t)
		var want []string
		for i := range 3*maxBatch + 10 {
			key := fmt.Sprintf("%03d", i)
			want = append(want, key)
			f.begin(t, ample, key)
		}
		if n := len(f.got()); n != testOut || f.waiting() != len(want) {
			t.Errorf("%d batches are out, and %d checks wait; want %d and %d, as more would pile up at the server", n, f.waiting(),
				testOut, len(want))
		}
		f.release()
		time.Sleep(time.Second)
		var all []string
		for _, batch := range f.got()[testOut:] {
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

// What is asked again goes first, with what has come meanwhile, unless nobody waits for it.
func TestRetriesLeadTheNextBatch(t *testing.T) {
	t.Parallel()
	for leaves, want := range map[bool][][]string{
		false: {{"again"}, {"again", "meanwhile"}}, true: {{"again"}, {"meanwhile"}},
	} {
		store(t, 1, 1, func(t *testing.T, f *fake) {
			f.again = 1
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			again := make(chan error, 1)
			go func() { again <- f.ask(ctx, ample, "again") }()
			synctest.Wait()
			meanwhile := f.begin(t, ample, "meanwhile")
			if leaves {
				leave()
				wantReason(t, <-again, backend.Late)
				again <- nil
			}
			f.release()
			if err := errors.Join(<-again, <-meanwhile); err != nil || !slices.EqualFunc(f.got(), want, slices.Equal) {
				t.Errorf("%v; the batches are %q, want %q", err, f.got(), want)
			}
		})
	}
}

func TestChecksWithoutCallersAreNotCounted(t *testing.T) {
	t.Parallel()
	store(t, 1, testOut, func(t *testing.T, f *fake) {
		f.fill(t)
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 5)
		for range cap(done) {
			go func() { done <- f.ask(ctx, ample, "left", "left") }()
		}
		if n := f.waiting(); n != 10 {
			t.Fatalf("%d checks wait, want 10", n)
		}
		leave()
		for range cap(done) {
			wantReason(t, <-done, backend.Late)
		}
		f.release()
		if err := f.ask(t.Context(), ample, "last"); err != nil {
			t.Error(err)
		}
		for _, batch := range f.got() {
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
	store(t, 1, testOut, func(t *testing.T, f *fake) {
		f.fill(t)
		f.server.mu.Lock()
		f.server.Queues[0].roundTrip = testOut * 2 * time.Minute // a batch comes back every two minutes
		f.server.mu.Unlock()
		f.begin(t, ample, slices.Repeat([]string{"a"}, maxBatch)...)
		began := time.Now()
		wantReason(t, f.ask(t.Context(), ample, "next"), backend.Busy)
		if took := time.Since(began); took > 0 {
			t.Errorf("a caller waited %v to be told that the queue takes two minutes", took)
		}
		slow := f.begin(t, 5*time.Minute, "whoever has five minutes may wait two")
		f.release()
		if err := <-slow; err != nil {
			t.Error(err)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	store(t, 1, testOut, func(t *testing.T, f *fake) {
		f.fill(t)
		for range maxQueue / maxBatch {
			f.begin(t, ample, slices.Repeat([]string{"a"}, maxBatch)...)
		}
		wantReason(t, f.ask(t.Context(), ample, "next"), backend.Busy)
		if n := f.waiting(); n != maxQueue {
			t.Errorf("%d checks wait, want %d at most, as memory is not endless", n, maxQueue)
		}
	})
}

func TestNothingIsCountedAfterClose(t *testing.T) {
	t.Parallel()
	store(t, 1, testOut, func(t *testing.T, f *fake) {
		f.fill(t)
		waits := f.begin(t, ample, "waits")
		f.close(backend.ErrClosed)
		if err := <-waits; !errors.Is(err, backend.ErrClosed) {
			t.Errorf("a check that waited gave %v, want ErrClosed", err)
		}
		if err := f.ask(t.Context(), ample, "after"); !errors.Is(err, backend.ErrClosed) {
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
		if n := len(f.got()); n != testOut {
			t.Errorf("%d batches arrived, want the %d that were out", n, testOut)
		}
	})
}

func TestIdleServersAreRetired(t *testing.T) {
	t.Parallel()
	store(t, 1, testOut, func(t *testing.T, f *fake) {
		f.release()
		if err := f.ask(t.Context(), ample, "a"); err != nil {
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

// An exchange mixes callers: each of its checks is told with the context of its own.
func TestTraceGetsEachChecksContext(t *testing.T) {
	type name struct{}
	store(t, 1, 1, func(t *testing.T, f *fake) {
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
			go func() { wait <- f.ask(context.WithValue(t.Context(), name{}, who), ample, keys...) }()
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
