package e2e_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// load asks weir from several goroutines, each as fast as it is answered, until it is told to leave.
type load struct {
	calls   atomic.Int64
	leave   atomic.Bool
	workers sync.WaitGroup

	mu     sync.Mutex // protects failed
	failed []error
}

// startLoad lets each of some workers call ask, with a connection of its own.
func startLoad(t *testing.T, w *weir, workers int, ask func(*client) error) *load {
	t.Helper()
	l := &load{}
	for range workers {
		c := w.client(t)
		l.workers.Go(func() {
			for !l.leave.Load() {
				if err := ask(c); err != nil {
					l.mu.Lock()
					l.failed = append(l.failed, err)
					l.mu.Unlock()
				}
				l.calls.Add(1)
			}
		})
	}
	t.Cleanup(l.stop) // before the connections are closed
	return l
}

func (l *load) stop() {
	l.leave.Store(true)
	l.workers.Wait()
}

// wantNoFailures stops the load and complains about each call that failed.
func (l *load) wantNoFailures(t *testing.T, promise string) {
	t.Helper()
	l.stop()
	if calls := l.calls.Load(); len(l.failed) > 0 || calls == 0 {
		t.Errorf("%s: %d of %d calls failed, want none of many:\n%v", promise, len(l.failed), calls,
			errors.Join(l.failed[:min(len(l.failed), 5)]...))
	}
}
