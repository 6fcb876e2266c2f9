package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

func TestAnAnswerComesWhetherOrNotRedisIsThere(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Kill()
	w := weirtest.Serve(t, largePlan, "REDIS_URL="+server.Addr, "ON_BACKEND_FAILURE=error")
	c := w.Client(t)
	becomes := func(when string, want codes.Code) {
		t.Helper()
		weirtest.Eventually(t, when, func() error {
			_, err := c.Hit("large", "ann")
			if status.Code(err) == codes.DeadlineExceeded {
				t.Fatalf("%s: a call was not answered within %v: it waits for a Redis that hangs", when, process.Hang)
			}
			if status.Code(err) != want {
				return fmt.Errorf("a call was answered %v, want %v", err, want)
			}
			return nil
		})
	}
	becomes("it starts without Redis, and says so", codes.Unavailable)
	server.Restart(t)
	becomes("it finds Redis when that comes", codes.OK)
	server.Kill()
	becomes("Redis is gone", codes.Unavailable)
	if err := weirtest.WantStatus(w.Admin+"/livez", 200); err != nil {
		t.Errorf("without Redis weir is alive, and must not be restarted: %v", err)
	}
	server.Restart(t)
	becomes("Redis is back", codes.OK)
	server.Stop()
	becomes("Redis hangs", codes.Unavailable)
	server.Cont()
	becomes("Redis goes on", codes.OK)
}

// Two installations share a Redis; one has a prefix of its own.
func TestAPrefixKeepsTheCountersOfTwoWeirsApart(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	rules := weirtest.Rule("basic", "unit: hour, requests_per_unit: 1")
	for _, prefix := range []string{"", "blue:"} {
		c := weirtest.Serve(t, rules, "REDIS_URL="+server.Addr, weirtest.PatientRedis, "CACHE_KEY_PREFIX="+prefix).Client(t)
		awaitCounts(t, c, "basic")
		if s, err := c.Hit("basic", "ann"); err != nil || s.Code != rlspb.RateLimitResponse_OK {
			t.Errorf("with the prefix %q the first hit of its own counter gets %v, %v; want OK", prefix, s, err)
		}
	}
	keys := server.Client().Keys(t.Context(), "weir:{*}*").Val()
	for _, want := range []string{"}4:shop4:plan5:basic4:user3:ann", "}5:blue:4:shop4:plan5:basic4:user3:ann"} {
		if !slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, want) }) {
			t.Errorf("no key ends on %s, as KEYS.md has it: Redis holds %q", want, keys)
		}
	}
}

// A fourth node joins a ring of three through the file, under load. Which keys are its own hangs on the ports of the
// nodes; that none moves between the others does not.
func TestANodeJoinsTheRingUnderLoadAndOnlyItsKeysMove(t *testing.T) {
	t.Parallel()
	for !joinsTheRing(t) && !t.Failed() {
		t.Log("a node was taken for lost meanwhile, as the machine stood still, and its keys moved: once more")
	}
}

// joinsTheRing reports whether no node was taken for lost while the fourth joined.
func joinsTheRing(t *testing.T) (fair bool) {
	t.Helper()
	const keys = 400
	nodes := redistest.Ring(t, 4)
	list := filepath.Join(t.TempDir(), "nodes")
	write := func(n int) {
		t.Helper()
		var addrs []string
		for _, node := range nodes[:n] {
			addrs = append(addrs, node.Addr)
		}
		err := os.WriteFile(list+".new", []byte(strings.Join(addrs, "\n")), 0o644)
		if err := errors.Join(err, os.Rename(list+".new", list)); err != nil {
			t.Fatal(err)
		}
	}
	size := func(nodes ...*redistest.Server) (held int) {
		t.Helper()
		for _, n := range nodes {
			is, err := n.Client().Keys(t.Context(), "*4:plan5:large*").Result()
			if err != nil {
				t.Fatal(err)
			}
			held += len(is)
		}
		return held
	}
	write(3)
	w := weirtest.Serve(t, largePlan, "REDIS_TYPE=ring", "REDIS_URL_FILE="+list, "HISTORY=false", weirtest.PatientRedis)
	c := w.Client(t)
	awaitCounts(t, c, "large")
	hitAll := func() {
		for i := range keys {
			hits(t, c, 1, "large", fmt.Sprint(i))
		}
	}
	running := startLoad(t, w, 4, "large", nil)
	running.Reach(t, 10)
	hitAll()
	before := size(nodes...)
	write(4)
	weirtest.Eventually(t, "the new node is given keys", func() error {
		if hitAll(); size(nodes[3]) == 0 {
			return errors.New("it holds none")
		}
		return nil
	})
	hitAll()
	running.WantNoFailures(t, "a node that joins the ring")
	if w.Log.Contains(`msg="ring node does not answer"`) == nil {
		return false
	}
	moved := size(nodes[3])
	if others := size(nodes[:3]...); others != before || moved >= keys {
		t.Errorf("the other nodes held %d keys and now %d, and the new one %d: want that none moved between them, nor all to it",
			before, others, moved)
	}
	t.Logf("a fourth node took over %d of %d keys", moved, keys)
	return true
}

// Two weirs on one Redis, of which only the first spares: what the one left alone, the other counts.
func TestARefusedRequestCountsOnlyWhereItIsOverIfToldTo(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	rules := weirtest.Rule("tight", "unit: year, requests_per_unit: 2, algorithm: fixed_window") +
		weirtest.Rule("wide", "unit: year, requests_per_unit: 100")
	sparing := weirtest.Serve(t, rules, "REDIS_URL="+server.Addr, weirtest.PatientRedis, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true")
	plain := weirtest.Serve(t, rules, "REDIS_URL="+server.Addr, weirtest.PatientRedis)
	for _, w := range []*weirtest.Weir{sparing, plain} {
		awaitCounts(t, w.Client(t), "wide")
	}
	for _, step := range []struct {
		name        string
		ask         *weirtest.Weir
		over        bool
		left        uint32 // of 100, as the answer has it
		tight, wide uint64 // as they are counted then
	}{
		{"the first passes", sparing, false, 99, 1, 1},
		{"the second passes", sparing, false, 98, 2, 2},
		{"the third is refused", sparing, true, 98, 3, 2},
		{"the fourth is refused", sparing, true, 98, 4, 2},
		{"a weir that was not told counts it everywhere", plain, true, 97, 5, 3},
		{"back at the first", sparing, true, 97, 6, 3},
	} {
		answer, err := step.ask.Client(t).Ask("shop", weirtest.Describe("plan", "tight", "user", "ann"),
			weirtest.Describe("plan", "wide", "user", "ann"))
		if err != nil {
			t.Fatal(err)
		}
		if over := answer.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT; over != step.over {
			t.Errorf("%s: %v, want over %v", step.name, answer.OverallCode, step.over)
		}
		if s := answer.Statuses[1]; s.Code != rlspb.RateLimitResponse_OK || s.LimitRemaining != step.left {
			t.Errorf("%s: the descriptor that has room is answered %v, want OK with %d left", step.name, s, step.left)
		}
		wantCounted(t, step.ask, "tight", "ann", step.tight)
		wantCounted(t, step.ask, "wide", "ann", step.wide)
	}
}

func TestLimitsPerSecondAreCountedInTheSecondRedis(t *testing.T) {
	t.Parallel()
	main, perSecond := redistest.Single(t), redistest.Single(t)
	const fast = "unit: second, unit_multiplier: 9000, requests_per_unit: 1000"
	w := weirtest.Serve(t, weirtest.Rule("fast", fast)+weirtest.Rule("slow", fast, "unit: hour, requests_per_unit: 1000"),
		"REDIS_URL="+main.Addr, "REDIS_PERSECOND=true", "REDIS_PERSECOND_URL="+perSecond.Addr, weirtest.PatientRedis,
		"REDIS_PERSECOND_TIMEOUT=60s")
	c := w.Client(t)
	for plan, at := range map[string]*redistest.Server{"fast": perSecond, "slow": main} {
		awaitCounts(t, c, plan)
		hits(t, c, 1, plan, "ann")
		for _, server := range []*redistest.Server{main, perSecond} {
			keys, err := server.Client().Keys(t.Context(), "*4:"+plan+"*").Result()
			if err != nil || (len(keys) == 1) != (server == at) {
				t.Errorf("plan %s: the Redis at %s holds %q (%v), want the count at %s", plan, server.Addr, keys, err, at.Addr)
			}
		}
		wantCounted(t, w, plan, "ann", 1)
	}
}

func TestHealthFollowsRedisWhereItWasToldTo(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := weirtest.Serve(t, largePlan, "REDIS_URL="+server.Addr, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true")
	becomes := func(when string, ready, healthcheck int) {
		t.Helper()
		weirtest.Eventually(t, when, func() error {
			return errors.Join(weirtest.WantStatus(w.Admin+"/readyz", ready), weirtest.WantStatus(w.HTTP+"/healthcheck", healthcheck))
		})
	}
	becomes("with Redis it is healthy", 200, 200)
	server.Kill()
	_, _ = w.Client(t).Hit("large", "ann") // it fails, and so Redis is looked at
	becomes("without Redis it is not", 503, 500)
	if err := weirtest.WantStatus(w.Admin+"/livez", 200); err != nil {
		t.Error(err)
	}
	server.Restart(t)
	becomes("it is again, though nobody has asked", 200, 200)
}

// That it never gives up once Redis was there is proven of package redis, where time is an argument.
func TestItGivesUpWhereRedisIsNeverReachedAndWasToldTo(t *testing.T) {
	t.Parallel()
	nobody := "127.0.0.1:" + fmt.Sprint(process.Port(t))
	w := weirtest.New(t, "REDIS_URL="+nobody, "DRAIN_DELAY=0s", "REDIS_STARTUP_MAX_ELAPSED_TIME=1s")
	w.Start(t, process.Weir(t), "serve", "--config", w.Config)
	if code := w.ExitCode(t); code != 1 {
		t.Errorf("it ended with exit code %d, want 1", code)
	}
	w.Says(t, "weir gives up", "REDIS_STARTUP_MAX_ELAPSED_TIME", nobody)
}
