package historyfire

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// TestAFailoverForgetsNothingOfAWriterThatHasEnded has writers drain while the replica lags, and kills the primary as
// soon as they have ended. Nobody is left to send again what the replica lacks, so it must lack nothing.
func TestAFailoverForgetsNothingOfAWriterThatHasEnded(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t)
	f := newFire(t, site{Type: redis.Sentinel, URL: set.Master + "," + strings.Join(set.Addrs(), ",")}, 14)
	store := f.opened()
	for range roundsOf(4) {
		writers := []*running{f.start("writer", "", 0), f.start("writer", "", 0)}
		primary, replica := f.behind(set)
		var ending sync.WaitGroup
		for _, w := range writers {
			ending.Go(func() { f.stop(w) })
		}
		if ended := within(time.Second, ending.Wait); ended {
			primary.Kill() // before the replica hears of anything
			replica.Cont()
		} else {
			replica.Cont()
			ending.Wait()
			primary.Kill()
		}
		f.count("redis, for its replica")
		set.AwaitFailover(t, primary)
		f.exact(store)
		primary.Restart(t)
		set.Await(t)
	}
	f.finish(store)
}

// within reports whether f returns in so short a time. It may go on.
func within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
