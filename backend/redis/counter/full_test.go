package counter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/descriptors"
)

// A Redis that takes no writes cannot admit anybody, but it knows who is over the limit: these must not pass by a policy
// that allows what has no answer.
func TestAServerThatTakesNoWritesStillDenies(t *testing.T) {
	t.Parallel()
	for code, setting := range map[string][3]string{
		"OOM":        {"maxmemory", "100kb", "0"},
		"NOREPLICAS": {"min-replicas-to-write", "1", "0"},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			s, log := told(t, redis.Config{URL: server.Addr})
			redistest.Eventually(t, "it counts", s.Health().Ready)
			check := backend.Check{Key: []byte("over"), Hits: 2,
				Limits: []descriptors.Limit{backendtest.NewLimit(t, 2, descriptors.Day, 1, descriptors.SlidingWindow, 0)}}
			ask := func(op backend.Op, key string) (backend.Decision, error) {
				c := check
				c.Op, c.Key = op, []byte(key)
				var out [1]backend.Decision
				err := backend.DecideAll(t.Context(), s, []backend.Check{c}, out[:])
				return out[0], err
			}
			if d, err := ask(backend.Count, "over"); err != nil || !d.Allowed {
				t.Fatalf("while it takes writes: %+v, %v", d, err)
			}
			set := func(value string) {
				t.Helper()
				if err := server.Client().ConfigSet(t.Context(), setting[0], value).Err(); err != nil {
					t.Fatal(err)
				}
			}
			set(setting[1])
			for _, op := range []backend.Op{backend.Count, backend.Look} {
				if d, err := ask(op, "over"); err != nil || d.Allowed {
					t.Errorf("operation %d of a key over its limit: %+v, %v; want it denied", op, d, err)
				}
			}
			if d, err := ask(backend.Count, "another"); err == nil {
				t.Errorf("a key without hits gave %+v; it cannot have been counted", d)
			}
			redistest.Eventually(t, "the log tells what is wrong", func() error {
				return errors.Join(log.Contains(`level=WARN msg="redis server cannot count" server=`+server.Addr), log.Contains(code),
					log.Contains("it takes no writes: make room"))
			})
			awaitKnown(t, s, "and so does what is known", map[string]redis.State{server.Addr: redis.Failing})
			set(setting[2])
			redistest.Eventually(t, "it counts by functions again", func() error {
				if _, err := ask(backend.Count, "a third"); err != nil {
					return err
				}
				if way, err := s.script.On(t.Context(), ownerOf(t, redis.Config{URL: server.Addr})); err != nil || way.Command != "fcall" {
					return fmt.Errorf("it is called by %+v, %w", way, err)
				}
				return log.Contains(`level=WARN msg="redis server can count again" server=` + server.Addr)
			})
		})
	}
}
