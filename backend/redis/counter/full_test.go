package counter

import (
	"fmt"
	"strings"
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
	for name, setting := range map[string][3]string{
		"it is full":           {"maxmemory", "100kb", "0"},
		"it lacks its replica": {"min-replicas-to-write", "1", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			s := opened(t, redis.Config{URL: server.Addr}, nil)
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
			redistest.Eventually(t, "the log can tell what is wrong", func() error {
				if err := s.Health().Answers(); err == nil || !strings.Contains(err.Error(), "it takes no writes: make room") {
					return fmt.Errorf("the probe found %w", err)
				}
				return nil
			})
			set(setting[2])
			redistest.Eventually(t, "it counts by functions again", func() error {
				if _, err := ask(backend.Count, "a third"); err != nil {
					return err
				}
				if way, err := s.script.On(t.Context(), ownerOf(t, redis.Config{URL: server.Addr})); err != nil || way.Command != "fcall" {
					return fmt.Errorf("it is called by %+v, %w", way, err)
				}
				return nil
			})
		})
	}
}
