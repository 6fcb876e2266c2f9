package weirtest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// Load asks from several goroutines, each as fast as it is answered, until it is told to leave or a call fails.
type Load struct {
	calls   atomic.Int64    // that were answered
	asking  context.Context // ends when it is told to leave or a call fails
	leave   context.CancelFunc
	workers *errgroup.Group
}

// StartLoad lets each of some workers ask again and again. Ask fails at the latest after process.Hang, as a [Client] does.
func StartLoad(t testing.TB, workers int, ask func(worker int) error) *Load {
	t.Helper()
	l := &Load{}
	ctx, leave := context.WithCancel(context.Background())
	l.leave = leave
	l.workers, l.asking = errgroup.WithContext(ctx)
	for worker := range workers {
		l.workers.Go(func() error {
			for ; l.asking.Err() == nil; l.calls.Add(1) {
				if err := ask(worker); err != nil {
					return err
				}
			}
			return nil
		})
	}
	t.Cleanup(func() { _ = l.stop() })
	return l
}

// Reach waits until there were so many more calls.
func (l *Load) Reach(t testing.TB, more int64) {
	t.Helper()
	for end := l.calls.Load() + more; l.calls.Load() < end; time.Sleep(time.Millisecond) {
		if l.asking.Err() != nil {
			t.Fatalf("of %d calls more %d were not made: %v", more, end-l.calls.Load(), l.stop())
		}
	}
}

// Err is why the load has ended by itself, nil while it goes on.
func (l *Load) Err() error {
	if l.asking.Err() == nil {
		return nil
	}
	return l.stop()
}

func (l *Load) stop() error {
	l.leave()
	return l.workers.Wait()
}

// WantNoFailures stops the load, complains if a call failed, and returns how many calls there were.
func (l *Load) WantNoFailures(t testing.TB, promise string) int {
	t.Helper()
	err, calls := l.stop(), int(l.calls.Load())
	if calls == 0 || err != nil {
		t.Errorf("%s: after %d calls one failed, want none of many: %v", promise, calls, err)
	}
	return calls
}
