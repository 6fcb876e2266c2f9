package redis

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// clockwork is a server whose wall clock is shifted from the true one by shift, which sees that the server says so.
func clockwork(t *testing.T) (server *redistest.Server, shift func(by time.Duration)) {
	t.Helper()
	dir := t.TempDir()
	library, offset := filepath.Join(dir, "clock.so"), filepath.Join(dir, "offset")
	compile := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c"))
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("building what shifts a clock: %v\n%s", err, out)
	}
	if err := os.WriteFile(offset, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	server = redistest.Single(t, redistest.WithEnvironment("LD_PRELOAD="+library, "CLOCK_OFFSET_FILE="+offset))
	return server, func(by time.Duration) {
		t.Helper()
		file, err := os.OpenFile(offset, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(by/time.Second))), 0); err != nil {
			t.Fatal(err)
		}
		now, err := server.Client().Time(t.Context()).Result()
		if off := time.Until(now) - by; err != nil || off.Abs() > process.Hang {
			t.Fatalf("the server's clock is %v from what it was set to (%v): it did not step", off, err)
		}
	}
}

// All replicas share the clock of Redis, so windows go by it: no clock of this process moves here.
func TestWindowsFollowTheClockOfRedis(t *testing.T) {
	t.Parallel()
	server, shift := clockwork(t)
	s := opened(t, topology.Config{URL: server.Addr}, nil)
	for _, a := range []descriptors.Algorithm{
		descriptors.SlidingWindow, descriptors.TokenBucket, descriptors.SlidingLog,
	} {
		limits := []descriptors.Limit{backendtest.NewLimit(t, 1, descriptors.Day, 1, a, 0),
			backendtest.NewLimit(t, 100, descriptors.Year, 1, a, 0)} // so that Redis does not drop the key
		for _, step := range []struct {
			clock   time.Duration
			allowed bool
		}{{0, true}, {0, false}, {48 * time.Hour, true}, {48 * time.Hour, false}, {0, false}} {
			shift(step.clock)
			d := backendtest.Ask(t, s, backend.Check{Key: []byte(a.String()), Limits: limits, Hits: 1})
			if d.Allowed != step.allowed || d.RetryIn > 25*time.Hour {
				t.Errorf("%v, with the clock %v ahead: %+v; want it allowed: %v, and never to wait for more than a window",
					a, step.clock, d, step.allowed)
			}
		}
	}
}
