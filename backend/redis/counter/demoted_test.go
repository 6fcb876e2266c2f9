package counter

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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
	service := serveNode(t, before.Addr)
	s := opened(t, redis.Config{URL: service.addr}, nil)
	b := newBurden(t, "a")
	b.call(t, s)
	before.Stop()
	var calling sync.WaitGroup
	wait(t, "there are ten connections", func() bool {
		calling.Go(func() { b.call(t, s) })
		time.Sleep(2 * time.Millisecond)
		return service.connections.Load() >= 10
	})
	before.Cont()
	calling.Wait()
	host, port, _ := strings.Cut(after.Addr, ":")
	if err := before.Client().ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the demoted one has copied the other", func() bool { return len(librariesOf(t, before)) == 0 })
	service.node.Store(&after.Addr)
	resent := s.Stats().Resent
	last := newBurden(t, "b")
	last.call(t, s)
	last.exact(t, s)
	if n := s.Stats().Resent - resent; n > 3 {
		t.Errorf("the check was sent again %d times, want 3 at most", n)
	}
}

// service is an address that leads new connections to the node of the day.
type service struct {
	addr        string
	node        atomic.Pointer[string]
	connections atomic.Int64 // that were made
}

func serveNode(t *testing.T, addr string) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{addr: listener.Addr().String()}
	s.node.Store(&addr)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			server, err := net.Dial("tcp", *s.node.Load())
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return s
}
