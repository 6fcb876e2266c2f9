package redis

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// tally is what the callers of a test know of their hits.
type tally struct {
	answered, unknown atomic.Int64
	away              atomic.Int64 // that were told that they are not counted
}

// hit makes a call of one hit and notes what came of it.
func (n *tally) hit(t *testing.T, s *Store, timeout time.Duration, key string) {
	t.Helper()
	err := decide(s, timeout, key)
	n.note(t, err)
}

// note fails the test for an error that does not say that Redis is away.
func (n *tally) note(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
		n.answered.Add(1)
	case uncounted(err):
		n.away.Add(1)
	case errors.Is(err, ErrUnavailable):
		n.unknown.Add(1)
	default:
		t.Error(err)
	}
}

// uncounted reports whether an error is proof that a check was not counted.
func uncounted(err error) bool {
	switch backend.ReasonOf(err) {
	case backend.Down, backend.Busy:
		return true
	case backend.Refused:
		return regexp.MustCompile("READONLY|LOADING|MASTERDOWN").MatchString(err.Error())
	}
	return false
}

func TestCloseLeavesNoGoroutines(t *testing.T) {
	server := redistest.Single(t)
	before := runtime.NumGoroutine()
	s := storeOf(connect(t, topology.Config{URL: server.Addr, Timeout: time.Second}), pipeline.NewScript(redistest.SumScript), sumCodec)
	stop := backendtest.KeepBusy(64, func(client int) { _ = decide(s, time.Second, fmt.Sprint("key ", client)) })
	time.Sleep(100 * time.Millisecond)
	server.Freeze()
	time.Sleep(50 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	stop()
	server.Thaw()
	redistest.Until(t, "all goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
}

// A check that meets a server before its probe tells what is wrong with it, too: the server would hang up on a script
// that comes from somebody who has not logged in, and say nothing.
func TestCheckWithoutCredentialsNamesTheCause(t *testing.T) {
	t.Parallel()
	for _, release := range append(redistest.Releases(t), "") {
		t.Run(cmp.Or(release, "on PATH"), func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t, redistest.WithPassword(secret), redistest.WithRelease(release))
			for auth, want := range map[string]string{"": "NOAUTH", "wrong": "WRONGPASS"} {
				servers := connect(t, topology.Config{URL: server.Addr, Auth: auth, Timeout: ample})
				s := newScripted(servers, Config{}, newScript())
				defer s.Close()
				err := decide(s, ample, "key")
				if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want the server's %s", err, want)
				}
				said, err := server.Info(t.Context(), "errorstats")
				var times int
				if _, _ = fmt.Sscanf(said["errorstat_"+want], "count=%d", &times); err != nil || times == 0 || times > 10 {
					t.Errorf("the server said so %d times, %v; want 10 at most: credentials do not come by waiting", times, err)
				}
			}
		})
	}
}
