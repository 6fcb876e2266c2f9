package redistest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// hang bounds what would otherwise hold up the tests for ever. Nothing on a busy machine takes a part of it.
const hang = time.Minute

// recorder is a test within a test: it keeps what it was told instead of failing.
type recorder struct {
	testing.TB
	failed   bool
	told     []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Failed() bool     { return r.failed }
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Log(args ...any)  { r.told = append(r.told, fmt.Sprint(args...)) }

func (r *recorder) Fatal(args ...any) {
	r.failed = true
	r.Log(args...)
	runtime.Goexit()
}

// run runs a test and its cleanups, and gives what it told.
func (r *recorder) run(test func(testing.TB)) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for len(r.cleanups) > 0 {
				last := len(r.cleanups) - 1
				f := r.cleanups[last]
				r.cleanups = r.cleanups[:last]
				f()
			}
		}()
		test(r)
	}()
	<-done
	return strings.Join(r.told, "\n")
}

func TestMissingRedisFailsWithTheWayOut(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := recorder{TB: t}
	told := r.run(func(t testing.TB) { redistest.Single(t) })
	if want := "redis-server is not on PATH: run make tools"; !r.failed || told != want {
		t.Errorf("without Redis a test fails: %v, and says %q, want true and %q", r.failed, told, want)
	}
}

func TestFailedTestShowsWhatRedisPrinted(t *testing.T) {
	for _, failed := range []bool{true, false} {
		r := recorder{TB: t}
		var s *redistest.Server
		told := r.run(func(t testing.TB) {
			s = redistest.Single(t)
			r.failed = failed
		})
		if shown := strings.Contains(told, "Ready to accept connections"); shown != failed {
			t.Errorf("when the test failed is %v, the log is shown: %v; it told %q", failed, shown, told)
		}
		if s.Running() {
			t.Error("the server outlives its test")
		}
	}
}

func TestBadConfigurationIsAnError(t *testing.T) {
	s, err := redistest.StartSingle(t.TempDir(), redistest.WithConfig("no-such-directive 1"))
	if err == nil {
		s.Close()
		t.Fatal("a server with a wrong configuration starts")
	}
	if !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("the error does not show what Redis said: %v", err)
	}
}
