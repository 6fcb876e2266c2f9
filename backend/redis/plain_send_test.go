package redis

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/incr"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/backend/window"
)

// plainBegin is the minute of plainStore, in which its clock stands still.
const plainBegin = 1_777_777_740

// plainStore is a store of envoyproxy/ratelimit's keys.
func plainStore(t *testing.T, on *topology.Servers) *Store {
	t.Helper()
	now := func() time.Time { return time.Unix(plainBegin+37, 0) }
	s := newPlain(on, Config{Now: now}, incr.Keys{Jitter: 300})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// What a check counted too much it takes back by itself, once, and in the same call.
func TestWhatWentTooFarIsTakenBack(t *testing.T) {
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
			s := plainStore(t, over(fixed{testClient(t, server.Addr, ample)}, ample))
			check := redistest.Hit("\x00a_")
			check.Op, check.Hits = tc.check.Op, tc.check.Hits
			if d := askOne(t, s, check); d != tc.want {
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
func TestWhatACallerLeavesIsFinished(t *testing.T) {
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
	s := plainStore(t, over(fixed{testClient(t, server.Addr, ample)}, ample))
	check := redistest.Hit("\x00a_")
	check.Op, check.Hits = backend.Refund, 5
	var out [1]backend.Decision
	if err := s.Decide(ctx, []backend.Check{check}, out[:]); err != nil || out[0].Err == nil {
		t.Errorf("%+v, %v; want no answer for a caller who has left", out[0], err)
	}
	redistest.Until(t, "what the refund took too much is added", func() bool { return server.Count("incrby") == 2 })
}

// ofPlainStore is the pattern of the keys of plainStore.
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
