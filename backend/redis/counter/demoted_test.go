package counter

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// A demoted primary that has copied one without the library knows no function and takes none. Connections to it lead
// nowhere, all of them, however many there are: new ones lead to the primary, as a Service of Kubernetes has it.
func TestADemotedPrimaryWithoutTheLibraryIsLeftAtOnce(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 2)
	before, after := nodes[0], nodes[1]
	service := redistest.Proxy(t, before.Addr)
	s := opened(t, redis.Config{URL: service.Addr}, nil)
	b := newBurden(t, "a")
	b.call(t, s)
	before.Stop()
	var calling sync.WaitGroup
	wait(t, "there are ten connections", func() bool {
		calling.Go(func() { b.call(t, s) })
		time.Sleep(2 * time.Millisecond)
		return service.Counts().Connections >= 10
	})
	before.Cont()
	calling.Wait()
	host, port, _ := strings.Cut(after.Addr, ":")
	if err := before.Client().ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the demoted one has copied the other", func() bool { return len(librariesOf(t, before)) == 0 })
	service.Redirect(after.Addr)
	resent := s.Stats().Resent
	last := newBurden(t, "b")
	last.call(t, s)
	last.exact(t, s)
	if n := s.Stats().Resent - resent; n > 3 {
		t.Errorf("the check was sent again %d times, want 3 at most", n)
	}
}
