package e2e_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

func TestAnAnswerComesInTimeWhetherOrNotRedisIsThere(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := startWeir(t, `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 100000 }
`, "REDIS_URL="+server.Addr, "ON_BACKEND_FAILURE=error")
	c := w.client(t)
	longest := time.Duration(0)
	wants := func(when string, want codes.Code) func() error {
		return func() error {
			began := time.Now()
			_, err := c.hit("basic", "ann")
			longest = max(longest, time.Since(began))
			if status.Code(err) == codes.DeadlineExceeded {
				t.Fatalf("%s: a call was not answered within %v: it waits for a Redis that hangs", when, hang)
			}
			if status.Code(err) != want {
				return fmt.Errorf("%s: a call was answered %v, want %v", when, err, want)
			}
			return nil
		}
	}
	eventually(t, "Redis counts", wants("with Redis", codes.OK))
	server.Kill()
	eventually(t, "Redis is gone", wants("without Redis", codes.Unavailable))
	if err := wantStatus(w.admin+"/livez", 200); err != nil {
		t.Errorf("without Redis weir is alive, and must not be restarted: %v", err)
	}
	server.Restart(t)
	eventually(t, "Redis is back", wants("with Redis again", codes.OK))
	server.Stop()
	eventually(t, "Redis hangs", wants("while Redis hangs", codes.Unavailable))
	server.Cont()
	eventually(t, "Redis goes on", wants("when Redis goes on", codes.OK))
	t.Logf("with REDIS_TIMEOUT as it is unasked, 500ms, the longest call took %v", longest.Round(time.Millisecond))
}

func TestWeirStartsAndWaitsWhereThereIsNoRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Kill()
	w := startWeir(t, `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 100 }
`, "REDIS_URL="+server.Addr, "ON_BACKEND_FAILURE=error")
	c := w.client(t)
	if _, err := c.hit("basic", "ann"); status.Code(err) != codes.Unavailable {
		t.Errorf("without Redis a call is answered %v, want UNAVAILABLE", err)
	}
	server.Restart(t)
	eventually(t, "weir finds Redis when it comes", func() error {
		_, err := c.hit("basic", "ann")
		return err
	})
}

// Two installations share a Redis; one has a prefix of its own.
func TestAPrefixKeepsTheCountersOfTwoWeirsApart(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	const rules = `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1 }
`
	plain := startWeir(t, rules, "REDIS_URL="+server.Addr, patientRedis).client(t)
	prefixed := startWeir(t, rules, "REDIS_URL="+server.Addr, patientRedis, "CACHE_KEY_PREFIX=blue:").client(t)
	for name, c := range map[string]*client{"plain": plain, "prefixed": prefixed} {
		eventually(t, "Redis counts", func() error {
			_, err := c.look("basic", "ann")
			return err
		})
		if s, err := c.hit("basic", "ann"); err != nil || s.Code != rlspb.RateLimitResponse_OK {
			t.Errorf("%s: the first hit of its own counter gets %v, %v; want OK", name, s, err)
		}
	}
	keys := server.Client().Keys(t.Context(), "weir:{*}*").Val()
	for _, want := range []string{"}4:shop4:plan5:basic4:user3:ann", "}5:blue:4:shop4:plan5:basic4:user3:ann"} {
		if !slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, want) }) {
			t.Errorf("no key ends on %s, as KEYS.md has it: Redis holds %q", want, keys)
		}
	}
}

var ringKeys = flag.Int("ring-keys", 6_000, "how many keys a ring has that a node joins; make soak has 30,000")

// A fourth node joins a ring of three through the file, under load.
func TestANodeJoinsTheRingUnderLoadAndOnlyItsKeysMove(t *testing.T) {
	t.Parallel()
	keys := *ringKeys
	nodes := redistest.Ring(t, 4)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	list := filepath.Join(t.TempDir(), "nodes")
	write := func(n int) {
		t.Helper()
		if err := os.WriteFile(list+".new", []byte(strings.Join(addrs[:n], "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(list+".new", list); err != nil {
			t.Fatal(err)
		}
	}
	write(3)
	w := startWeir(t, `
- key: plan
  value: large
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1000000 }
`, "REDIS_TYPE=ring", "REDIS_URL_FILE="+list, patientRedis)
	eventually(t, "the ring answers", func() error {
		_, err := w.client(t).hit("large", "first")
		return err
	})
	hitAll := func(keys int) {
		var workers sync.WaitGroup
		for worker := range 32 {
			c := w.client(t)
			workers.Go(func() {
				for i := worker; i < keys; i += 32 {
					if _, err := c.hit("large", fmt.Sprint(i)); err != nil {
						t.Errorf("key %d: %v", i, err)
						return
					}
				}
			})
		}
		workers.Wait()
	}
	hitAll(keys)
	running := startLoad(t, w, 4, func(c *client) error {
		_, err := c.hit("large", "load")
		return err
	})
	write(4)
	size := func(n *redistest.Server) int {
		t.Helper()
		held, err := n.Client().DBSize(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return int(held)
	}
	joined := eventually(t, "the new node is given keys", func() error {
		if hitAll(100); size(nodes[3]) == 0 { // a quarter of them is to move there
			return errors.New("it holds none")
		}
		return nil
	})
	hitAll(keys)
	running.wantNoFailures(t, "a node that joins the ring")
	moved := size(nodes[3])
	t.Logf("a fourth node took over %d of %d keys (a quarter is %d), the first of them %v after the file had it", moved, keys,
		keys/4, joined.Round(time.Millisecond))
	if moved == 0 || moved > keys*13/40 {
		t.Errorf("%d of %d keys moved to the new node, want about a quarter and at most 1.3 quarters", moved, keys)
	}
	for i, n := range nodes[:3] {
		held := size(n)
		if spread := float64(held)/float64(keys/3) - 1; spread > 0.15 || spread < -0.15 {
			t.Errorf("node %d held %d of %d keys in a ring of three, want a third within 15 %%", i, held, keys)
		}
	}
}
