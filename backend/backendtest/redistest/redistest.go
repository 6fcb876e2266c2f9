// Package redistest runs real Redis processes for tests: one server, a primary with a replica and sentinels, a cluster,
// or independent nodes; and a proxy that breaks the connections to them in chosen ways. It takes the redis-server on
// PATH, else a valkey-server, and fails without either.
//
// Single, Sentinel, Cluster, Ring and Proxy give what lasts until its test ends, and show what the processes printed if
// it failed. Shared gives servers that all tests of a package share, and Run, in its TestMain, ends them.
// Processes listen on free ports of 127.0.0.1 and keep nothing on disk unless asked to. On Linux they die with the
// process of the tests, however that ends. All methods may be called from many goroutines at once, but for those that
// change a set of servers (Failover, MigrateSlot and their like): one of these at a time.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

const (
	// askTime bounds one attempt of those that await makes: a server that is gone must not use up the time for all.
	askTime = 2 * time.Second
	// patience bounds what is asked once.
	patience = 30 * time.Second
)

// Until waits until a promise is kept, for as long as a busy machine may need.
func Until(t testing.TB, promise string, kept func() bool) {
	t.Helper()
	process.Eventually(t, promise, func() error {
		if !kept() {
			return errors.New("not yet")
		}
		return nil
	})
}

// keep starts servers in a folder of their own and ends them with their test. The folder's name is short, as the path
// of a unix socket has to be.
func keep(t testing.TB, start func(dir string) (*Set, error)) *Set {
	t.Helper()
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what stays is for the system's own cleaning
	kept, err := start(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kept.all.Close()
		if t.Failed() {
			t.Log(kept.all.Log())
		}
	})
	return kept
}

// await polls until check is content.
func await(promise string, check func(context.Context) error) error {
	deadline := time.Now().Add(process.Hang)
	for {
		last := time.Now().After(deadline)
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		err := check(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if last {
			return fmt.Errorf("not within %v: %s: %w", process.Hang, promise, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// mustAwait is await for a test.
func mustAwait(t testing.TB, promise string, check func(context.Context) error) {
	t.Helper()
	if err := await(promise, check); err != nil {
		t.Fatal(err)
	}
}
