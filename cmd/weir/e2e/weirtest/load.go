package weirtest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// Load asks from several goroutines, each as fast as it is answered, until it is told to leave.
type Load struct {
	calls   atomic.Int64
	leave   atomic.Bool
	workers sync.WaitGroup

	mu     sync.Mutex // protects failed
	failed []error
}

// StartLoad lets each of some workers ask again and again, to its first error.
func StartLoad(t testing.TB, workers int, ask func(worker int) error) *Load {
	t.Helper()
	l := &Load{}
	for worker := range workers {
		l.workers.Go(func() {
			for failed := error(nil); failed == nil && !l.leave.Load(); l.calls.Add(1) {
				if failed = ask(worker); failed != nil {
					l.mu.Lock()
					l.failed = append(l.failed, failed)
					l.mu.Unlock()
				}
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// Reach waits until there were so many more calls.
func (l *Load) Reach(t testing.TB, more int64) {
	t.Helper()
	for last, since, end := int64(-1), time.Now(), l.calls.Load()+more; ; time.Sleep(time.Millisecond) {
		switch n := l.calls.Load(); {
		case n >= end:
			return
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) > process.Hang:
			t.Fatalf("after %d calls there was none more within %v: %v", n, process.Hang, l.errors())
		}
	}
}

func (l *Load) stop() {
	l.leave.Store(true)
	l.workers.Wait()
}

func (l *Load) errors() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.failed...)
}

// WantNoFailures stops the load, complains about each worker whose call failed, and returns how many calls there were.
func (l *Load) WantNoFailures(t testing.TB, promise string) int {
	t.Helper()
	l.stop()
	calls := int(l.calls.Load())
	if calls == 0 || len(l.failed) > 0 {
		t.Errorf("%s: %d of %d calls failed, want none of many:\n%v", promise, len(l.failed), calls, l.errors())
	}
	return calls
}
