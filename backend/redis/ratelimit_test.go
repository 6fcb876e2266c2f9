package redis

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// ofRatelimits are the rights that envoyproxy/ratelimit needs.
var ofRatelimits = []string{"+incrby", "+expire", "+get", "+ping", "+hello"}

// allowed is a server with a user who has these rights and no others, and a store that this user opened, with its log.
func allowed(t *testing.T, rules ...string) (*redistest.Server, byFormat, *process.Output) {
	t.Helper()
	rules = append([]string{"resetchannels", "~*"}, rules...)
	server := redistest.Single(t, redistest.WithACL("limiter", "secret", rules...))
	log := new(process.Output)
	c := topology.Config{URL: server.Addr, Auth: "limiter:secret", Log: slog.New(slog.NewTextHandler(log, nil))}
	return server, openedMixed(t, c, nil), log
}

// denials are what the ACL of a server refused: commands, and how often.
func denials(t *testing.T, server *redistest.Server) map[string]int64 {
	t.Helper()
	entries, err := server.Client().ACLLog(t.Context(), 1000).Result()
	if err != nil {
		t.Fatal(err)
	}
	refused := make(map[string]int64)
	for _, e := range entries {
		refused[e.Object] += e.Count
	}
	return refused
}

// callsOf are the commands that servers were called by, but for those of connections and of the test, and how often:
// in all ("calls"), in vain ("failed_calls"), or without being run, as what is redirected ("rejected_calls").
func callsOf(t *testing.T, how string, servers ...*redistest.Server) map[string]int {
	t.Helper()
	calls := make(map[string]int)
	for _, server := range servers {
		stats, err := server.Info(t.Context(), "commandstats")
		if err != nil {
			t.Fatal(err)
		}
		for name, stat := range stats {
			var n int
			_, after, _ := strings.Cut(","+stat, ","+how+"=")
			if _, err := fmt.Sscanf(after, "%d", &n); err == nil && n > 0 {
				calls[strings.TrimPrefix(name, "cmdstat_")] += n
			}
		}
	}
	for _, name := range []string{"hello", "info", "acl|log", "config|resetstat"} {
		delete(calls, name)
	}
	return calls
}

// Half of the traffic is envoyproxy/ratelimit's, as it was seen to write it; the other half is weir's, by a user who
// may do what that program needs.
func TestCountsAreSharedWithRatelimit(t *testing.T) {
	t.Parallel()
	const clients, each, n = 8, 100, 700
	server, m, _ := allowed(t, ofRatelimits...)
	ctx := context.Background()
	var running sync.WaitGroup
	var mu sync.Mutex
	seen, within := make(map[uint64]int), 0 // counts that came back
	note := func(after uint64) {
		mu.Lock()
		defer mu.Unlock()
		seen[after]++
		if after <= n {
			within++
		}
	}
	begin := time.Now().Unix() / (365 * 86400) * 365 * 86400
	key := fmt.Sprintf("shop_user_ann_path_/pay_%d", begin)
	yearly := []descriptors.Limit{backendtest.NewLimit(t, n, descriptors.Year, 1, descriptors.FixedWindow, 0)}
	for range clients {
		running.Go(func() {
			for range each {
				pipe := server.Client().Pipeline()
				count := pipe.IncrBy(ctx, key, 1)
				pipe.Expire(ctx, key, 365*24*time.Hour+77*time.Second)
				if _, err := pipe.Exec(ctx); err != nil {
					t.Error(err)
				}
				note(uint64(count.Val()))
			}
		})
		running.Go(func() {
			for range each {
				d := backendtest.Ask(t, m, backend.Check{Key: ofRatelimit("shop_user_ann_path_/pay_"), Limits: yearly, Hits: 1})
				if d.Allowed != (d.Before < n) {
					t.Errorf("%+v under %d a year; want it allowed while the count was below", d, n)
				}
				note(d.Before + 1)
			}
		})
	}
	running.Wait()
	if got := server.Client().Get(ctx, key).Val(); got != fmt.Sprint(2*clients*each) {
		t.Errorf("the key that both write holds %s; want %d: one count", got, 2*clients*each)
	}
	if len(seen) != 2*clients*each || within != n {
		t.Errorf("%d different counts came back, and %d hits were within the limit; want %d, and %d: every hit takes a number of its own",
			len(seen), within, 2*clients*each, n)
	}
	if keys := server.Client().Keys(ctx, "*").Val(); !slices.Equal(keys, []string{key}) {
		t.Errorf("Redis holds %q; want nothing but the key of envoyproxy/ratelimit", keys)
	}
	backendtest.Ask(t, m, backend.Check{Key: ofRatelimit("shop_user_ann_path_/pay_"), Limits: yearly, Op: backend.Look})
	if refused := denials(t, server); len(refused) > 0 {
		t.Errorf("the ACL refused %v; want nothing asked that envoyproxy/ratelimit does not ask", refused)
	}
}

// Of a right that is missing the log tells once, with what mends it, and nothing is asked that is known to be refused,
// but for EXPIRE, without which a counter would stay.
func TestMissingRatelimitRightIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for missing, tc := range map[string]struct {
		told    string
		refused map[string]int64
	}{
		"+get":    {"~* +incrby +expire +get +ping", map[string]int64{"get": 1}},
		"+expire": {"keeps counters for ever", map[string]int64{"expire": 3}},
		"+incrby": {"ACL SETUSER limiter ~* +incrby +expire +get +ping", nil},
	} {
		t.Run("without "+missing, func(t *testing.T) {
			t.Parallel()
			is := func(rule string) bool { return rule == missing }
			server, m, log := allowed(t, slices.DeleteFunc(slices.Clone(ofRatelimits), is)...)
			check := backend.Check{Key: ofRatelimit("d_k_v_"), Limits: hourly(t, 5)}
			for i := range uint64(3) {
				check.Op, check.Hits = backend.Count, 1
				var out [1]backend.Decision
				if err := m.Decide(t.Context(), []backend.Check{check}, out[:]); err != nil {
					t.Fatal(err)
				}
				if missing == "+incrby" {
					if backend.ReasonOf(out[0].Err) != backend.Refused {
						t.Errorf("%+v; want the check refused", out[0])
					}
					continue
				}
				if d := out[0]; d.Err != nil || d.Before != i || !d.Allowed {
					t.Fatalf("check %d: %+v; want it counted all the same", i+1, d)
				}
				check.Op, check.Hits = backend.Look, 3
				if d := backendtest.Ask(t, m, check); d.Before != i+1 || d.Remaining != 4-i || !d.Allowed {
					t.Fatalf("a look after %d hits: %+v; want these, and the rest of 5 left", i+1, d)
				}
			}
			if got := denials(t, server); tc.refused != nil && !maps.Equal(got, tc.refused) {
				t.Errorf("the ACL refused %v; want %v", got, tc.refused)
			}
			if n := strings.Count(log.String(), tc.told); n != 1 {
				t.Errorf("%q was logged %d times; want once\n%s", tc.told, n, log)
			}
		})
	}
}

// The script's half begins with the first check that needs it, and works from then on.
func TestScriptLoadsWithItsFirstCheck(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	m := openedMixed(t, topology.Config{URL: server.Addr}, nil)
	plain := backend.Check{Key: ofRatelimit("d_k_v_"), Limits: hourly(t, 5), Hits: 1}
	weirs := backend.Check{Key: []byte("1:d1:k1:v"), Limits: hourly(t, 5), Hits: 1}
	for range 3 {
		for _, op := range []backend.Op{backend.Count, backend.Look, backend.Refund} {
			plain.Op = op
			backendtest.Ask(t, m, plain)
		}
		if _, err := m.Inspect(t.Context(), plain.Key, plain.Limits); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // presences come early at first
	}
	for name := range callsOf(t, "calls", server) {
		if !slices.Contains([]string{"incrby", "expire", "get", "ping", "keys"}, name) {
			t.Errorf("the server was asked %s; want nothing before a rule needs it", strings.ToUpper(name))
		}
	}

	plain.Op = backend.Count
	var out [4]backend.Decision
	checks := []backend.Check{plain, weirs, plain, weirs}
	if err := backend.DecideAll(t.Context(), m, checks, out[:]); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{0, 0, 1, 1} {
		if !out[i].Allowed || out[i].Before != want {
			t.Errorf("check %d of a call for both: %+v; want it allowed at %d", i+1, out[i], want)
		}
	}
	process.Eventually(t, "the script's half is healthy", m.ProbeErr)
	calls := callsOf(t, "calls", server)
	for _, name := range []string{"fcall", "function|load", "incrby"} {
		if calls[name] == 0 {
			t.Errorf("the server was never asked %s, of %v", strings.ToUpper(name), slices.Sorted(maps.Keys(calls)))
		}
	}
}

func TestPlainKeysAreReadAndReset(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	m := openedMixed(t, topology.Config{URL: server.Addr}, nil)
	for _, u := range descriptors.Units() {
		limits := []descriptors.Limit{backendtest.NewLimit(t, 10, u, 1, descriptors.FixedWindow, 0)}
		if u == descriptors.Second {
			continue // which is over before it is looked at
		}
		key := ofRatelimit("shop_unit_" + u.String() + "_")
		backendtest.Ask(t, m, backend.Check{Key: key, Limits: limits, Hits: 7})
		backendtest.Ask(t, m, backend.Check{Key: key, Limits: limits, Op: backend.Refund, Hits: 3})
		counts, err := m.Inspect(t.Context(), key, limits)
		if err != nil || len(counts) != 1 || counts[0].Hits != 4 || counts[0].Remaining() != 6 || len(counts[0].Levels) != 1 {
			t.Fatalf("%v: %+v, %v; want the 4 hits that were counted and not granted back", u, counts, err)
		}
		b := counts[0].Levels[0][0]
		if now := time.Now(); b.Width != u.Duration() || b.Begin.After(now) || b.Begin.Add(b.Width).Before(now) || b.Hits != 4 {
			t.Errorf("%v: the window is %+v; want one of that length that it is now", u, b)
		}
		if err := m.Reset(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if counts, err := m.Inspect(t.Context(), key, limits); err != nil || counts[0].Hits != 0 || counts[0].ResetIn != 0 {
			t.Errorf("%v: after a reset %+v, %v; want nothing", u, counts, err)
		}
	}
	if n := server.Client().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left after all were reset; want none", n)
	}

	_, m, _ = allowed(t, ofRatelimits...)
	if err := m.Reset(t.Context(), ofRatelimit("d_k_v_")); err == nil || !strings.Contains(err.Error(), "+del") {
		t.Errorf("a reset by a user who may not: %v; want the right that is missing", err)
	}
}

// The rights that are told are enough on every topology, and no more is asked.
func TestNamedRightsSufficeOnEveryTopology(t *testing.T) {
	t.Parallel()
	for _, kind := range typesBut(topology.Single, topology.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rules := append([]string{"resetchannels", "+hello"}, strings.Fields(ratelimitRights)...)
			if kind == topology.Cluster {
				rules = append(rules, "+cluster|slots", "+asking")
			}
			c := start(t, kind, redistest.WithACL("limiter", "secret", rules...))
			c.Auth = "limiter:secret"
			m := openedMixed(t, c, nil)
			for i := range 50 {
				check := backend.Check{Key: ofRatelimit(fmt.Sprintf("d_k_%d_", i)), Limits: hourly(t, 5), Hits: 2}
				backendtest.Ask(t, m, check)
				check.Op, check.Hits = backend.Refund, 3
				backendtest.Ask(t, m, check)
				check.Op = backend.Look
				if d := backendtest.Ask(t, m, check); d.Before != 0 || !d.Allowed {
					t.Errorf("after 2 hits and a refund of 3: %+v; want nothing counted", d)
				}
			}
			c.Auth = "redistest:redistest" // may do all
			err := connect(t, c).Each(t.Context(), func(name string, do func(...any) (any, error)) error {
				refused, err := do("acl", "log")
				if list, _ := refused.([]any); len(list) > 0 {
					t.Errorf("%s refused %v", name, list)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// plainBegin is the minute of ratelimitStore, in which its clock stands still.
const plainBegin = 1_777_777_740

// ratelimitStore is a store of envoyproxy/ratelimit's keys.
func ratelimitStore(t *testing.T, on *topology.Servers) *Store {
	t.Helper()
	now := func() time.Time { return time.Unix(plainBegin+37, 0) }
	s := newRatelimit(on, Config{Now: now}, ratelimit.Keys{Jitter: 300})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// What a check counted too much it takes back by itself, once, and in the same call.
func TestExcessHitsAreTakenBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		check   backend.Check
		replies map[string]string
		want    backend.Decision
		last    string // what the last INCRBY adds
		asked   string
	}{
		"a refund below zero": {
			backend.Check{Op: backend.Refund, Hits: 5}, map[string]string{"incrby 1": ":-3\r\n"},
			backend.Decision{Allowed: true, Before: 2, Remaining: 1, ResetIn: 23 * time.Second}, "3", "incrby expire incrby",
		},
		"a refund below another's": {
			backend.Check{Op: backend.Refund, Hits: 5}, map[string]string{"incrby 1": ":-9\r\n"},
			backend.Decision{Allowed: true, Remaining: 1, ResetIn: 23 * time.Second}, "5", "incrby expire incrby",
		},
		"more than is counted": {
			backend.Check{Hits: 1 << 63}, map[string]string{"incrby 1": fmt.Sprintf(":%d\r\n", window.MaxCount+7)},
			backend.Decision{Before: 7, ResetIn: 23 * time.Second, RetryIn: backend.Never}, "-7", "incrby expire incrby",
		},
		"the taking back is refused for now": {
			backend.Check{Op: backend.Refund, Hits: 5}, map[string]string{"incrby 1": ":-3\r\n", "incrby 2": "-TRYAGAIN\r\n"},
			backend.Decision{Allowed: true, Before: 2, Remaining: 1, ResetIn: 23 * time.Second}, "3", "incrby expire incrby incrby",
		},
		"its answer is lost": {
			backend.Check{Op: backend.Refund, Hits: 5}, map[string]string{"incrby 1": ":-3\r\n", "incrby 2": redistest.HangUp},
			backend.Decision{Allowed: true, Before: 2, Remaining: 1, ResetIn: 23 * time.Second}, "3", "incrby expire incrby",
		},
		"Redis can count no more": {
			backend.Check{Hits: 1}, map[string]string{"incrby 1": "-ERR increment or decrement would overflow\r\n"},
			backend.Decision{Before: window.MaxCount, ResetIn: 23 * time.Second, RetryIn: 23 * time.Second}, "1", "incrby expire",
		},
		"a look without GET": {
			backend.Check{Op: backend.Look}, map[string]string{"get 1": "-NOPERM no permissions to run the 'get' command\r\n"},
			backend.Decision{Allowed: true, Before: 1, ResetIn: 23 * time.Second}, "0", "get incrby expire",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var last atomic.Value
			reply := redistest.Answers(tc.replies)
			server := redistest.NewStub(t, func(n int, command []string) string {
				if strings.ToLower(command[0]) == "incrby" {
					last.Store(command[2])
				}
				return reply(n, command)
			})
			s := ratelimitStore(t, connect(t, topology.Config{URL: server.Addr}))
			check := redistest.Hit("\x00a_")
			check.Op, check.Hits = tc.check.Op, tc.check.Hits
			if d := backendtest.Ask(t, s, check); d != tc.want {
				t.Errorf("got  %+v\nwant %+v", d, tc.want)
			}
			time.Sleep(5 * time.Millisecond) // for what should not come
			if got := server.Commands(); got != tc.asked {
				t.Errorf("the server was asked %q, want %q", got, tc.asked)
			}
			if got := last.Load(); got != tc.last {
				t.Errorf("the last INCRBY adds %v, want %s", got, tc.last)
			}
		})
	}
}

// Whoever has left cannot ask for what is missing: a key below zero would let more pass than its limit.
func TestAbandonedRefundIsFinished(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	server := redistest.NewStub(t, func(n int, command []string) string {
		if strings.ToLower(command[0]) == "incrby" && n == 1 {
			leave()
			time.Sleep(10 * time.Millisecond)
			return ":-3\r\n"
		}
		return ":0\r\n"
	})
	s := ratelimitStore(t, connect(t, topology.Config{URL: server.Addr}))
	check := redistest.Hit("\x00a_")
	check.Op, check.Hits = backend.Refund, 5
	var out [1]backend.Decision
	if err := s.Decide(ctx, []backend.Check{check}, out[:]); err != nil || out[0].Err == nil {
		t.Errorf("%+v, %v; want no answer for a caller who has left", out[0], err)
	}
	redistest.Until(t, "what the refund took too much is added", func() bool { return server.Count("incrby") == 2 })
}

// ofPlainStore is the pattern of the keys of ratelimitStore.
var ofPlainStore = fmt.Sprintf("*_%d", plainBegin)

// heldBy is what a server holds for keys of a pattern, and how many of these have no end. Those of the script are
// hashes, and are left out.
func heldBy(t *testing.T, server *redistest.Server, pattern string) (sum int64, immortal int) {
	t.Helper()
	client, ctx := server.Client(), t.Context()
	keys := client.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		if n, err := client.Get(ctx, keys.Val()).Int64(); err == nil {
			sum += n
			if client.TTL(ctx, keys.Val()).Val() < 0 {
				immortal++
			}
		}
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	return sum, immortal
}
