package topology_test

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// A connection is counted until it is closed; and go-redis still sees through the counting whether the server has
// closed it, before it sends a command that must not be sent twice.
func TestConnectionsAreCountedWhileTheyAreOpen(t *testing.T) {
	server := redistest.Single(t)
	var n topology.Connections
	servers, err := topology.Connect(topology.Config{URL: server.Addr, Timeout: time.Minute, PoolSize: 1, Connections: &n}, topology.Rights{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := servers.Owner([]byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		if err := client.Incr(t.Context(), "k").Err(); err != nil {
			t.Errorf("count %d: %v; want it on a new connection, as the server has closed the last one", i, err)
		}
		if n.Open() != 1 || n.Opened.Load() != i+1 {
			t.Errorf("%d connections are open, and %d were opened; want 1, and %d", n.Open(), n.Opened.Load(), i+1)
		}
		if err := server.Client().ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := servers.Close(); err != nil {
		t.Error(err)
	}
	if n.Open() != 0 {
		t.Errorf("%d connections are open after all; want none", n.Open())
	}
}
