package redis

import (
	"cmp"
	"fmt"
	"log/slog"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// connect connects to the servers of a configuration until the end of the test.
func connect(t testing.TB, c topology.Config) *topology.Servers {
	t.Helper()
	c.Log, c.Timeout = slog.New(slog.DiscardHandler), cmp.Or(c.Timeout, ample)
	servers, err := topology.Connect(c, topology.Rights{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	return servers
}

// ownerOf returns the client of the server that has all keys.
func ownerOf(t testing.TB, c topology.Config) *goredis.Client {
	t.Helper()
	client, err := connect(t, c).Owner(nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func testClient(t *testing.T, addr string, timeout time.Duration) *goredis.Client {
	t.Helper()
	return ownerOf(t, topology.Config{URL: addr, Timeout: timeout})
}

// learnt is connect for servers that know at once who owns which slots.
func learnt(t *testing.T, c topology.Config) *topology.Servers {
	t.Helper()
	servers := connect(t, c)
	nothing := func(string, func(...any) (any, error)) error { return nil }
	if err := servers.Each(t.Context(), nothing); err != nil {
		t.Fatalf("learning who owns which slots: %v", err)
	}
	return servers
}

// storeAt returns a store of the plain script that knows which servers there are.
func storeAt(t *testing.T, c topology.Config) *Store {
	t.Helper()
	return storeOn(t, learnt(t, c))
}

// single starts one server, and returns how it is reached.
func single(t testing.TB, options ...redistest.Option) topology.Config {
	t.Helper()
	return topology.Config{URL: redistest.Single(t, options...).Addr}
}

// over makes servers of a topology of a test.
func over(t topology.Topology, timeout time.Duration) *topology.Servers {
	return topology.Over(t, topology.Config{Timeout: timeout, Log: slog.New(slog.DiscardHandler)})
}

// names are so many keys.
func names(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint(i))
	}
	return keys
}
