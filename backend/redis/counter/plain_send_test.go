package counter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/incr"
	"github.com/weirproxy/weir/backend/window"
)

// plainBegin is the minute of plainStore, in which its clock stands still.
const plainBegin = 1_777_777_740

// plainStore is a store of envoyproxy/ratelimit's keys.
func plainStore(t *testing.T, on *redis.Servers) *Store {
	t.Helper()
	s := newPlain(on, func() string { return fmt.Sprint((plainBegin + 37) * int64(1e6)) }, incr.Keys{Jitter: 300})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// answers is a stub's answers by the command and which of its kind it is: "incrby 1". Others are answered by 1.
func answers(replies map[string]string) func(n int, command []string) string {
	return func(n int, command []string) string {
		name := strings.ToLower(command[0])
		if reply, there := replies[fmt.Sprint(name, " ", n)]; there {
			return reply
		}
		if name == "asking" || name == "ping" {
			return "+OK\r\n"
		}
		return ":1\r\n"
	}
}

func TestWhatMayHaveCountedIsNeverSentAgain(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"no reply":              "",
		"the connection closes": hangUp,
		"the connection resets": reset,
		"half a reply":          ":1",
		"out of memory":         "-OOM command not allowed\r\n",
		"not allowed":           "-NOPERM no permissions\r\n",
		"no number":             "-ERR value is not an integer or out of range\r\n",
		"another type":          "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newStub(t, func(n int, command []string) string {
				if strings.ToLower(command[0]) == "incrby" {
					return reply
				}
				return ":1\r\n"
			})
			for deadline := 100 * time.Millisecond; server.count("incrby") == 0; deadline *= 2 { // as in WhatMayHaveRun
				if deadline > ample {
					t.Fatalf("no check was sent within %v", ample)
				}
				s := plainStore(t, redis.Over(fixed{testClient(t, server.addr, ample)}, ample))
				err := decide(s, deadline, "\x00a_", "\x00b_")
				if !errors.Is(err, ErrUnavailable) {
					t.Fatalf("the error is %v; want one that wraps ErrUnavailable", err)
				}
			}
			time.Sleep(20 * time.Millisecond) // for what should not come
			if sent := server.count("incrby"); sent > 2 {
				t.Errorf("two checks were sent as %d INCRBYs: they could be counted twice", sent)
			}
		})
	}
}

func TestWhatDidNotCountIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replies map[string]string
		want    string
	}{
		"the slot is moving":  {map[string]string{"incrby 1": "-TRYAGAIN\r\n"}, "incrby expire incrby expire"},
		"the cluster is down": {map[string]string{"incrby 1": "-CLUSTERDOWN The cluster is down\r\n"}, "incrby expire incrby expire"},
		"the server loads": {map[string]string{"incrby 1": "-LOADING\r\n", "expire 1": "-LOADING\r\n"},
			"incrby expire incrby expire"},
		"a replica": {map[string]string{"incrby 1": "-READONLY You can't write against a read only replica.\r\n",
			"expire 1": "-READONLY You can't write against a read only replica.\r\n"}, "incrby expire incrby expire"},
		"only the TTL is refused for now": {map[string]string{"expire 1": "-LOADING\r\n", "expire 2": "-TRYAGAIN\r\n"},
			"incrby expire expire expire"},
		"the TTL is refused for good": {map[string]string{"expire 1": "-ERR no\r\n"}, "incrby expire"},
		"the TTL's answer is lost":    {map[string]string{"expire 1": hangUp}, "incrby expire expire"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newStub(t, answers(tc.replies))
			s := plainStore(t, redis.Over(fixed{testClient(t, server.addr, ample)}, ample))
			if err := decide(s, ample, "\x00a_"); err != nil {
				t.Errorf("%v; the replies prove that the check did not count, or that it did", err)
			}
			if got := strings.ReplaceAll(server.commands(), " ping", ""); got != tc.want { // a breaker may send some
				t.Errorf("the server was asked %q, want %q", got, tc.want)
			}
			if got := s.Stats(); got.Unavailable != 0 {
				t.Errorf("the statistics are %+v, want no check unavailable", got)
			}
		})
	}
}

// In a cluster each command has its own fate: what counted is not sent after a TTL that must go elsewhere.
func TestRedirectsOfEachCommandAreFollowed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		code, commands string
		want           string // of the node that is named
	}{
		"MOVED":            {"MOVED", "incrby expire", "incrby expire"},
		"ASK":              {"ASK", "incrby expire", "asking incrby asking expire"},
		"MOVED of the TTL": {"MOVED", "expire", "expire"},
		"ASK of the TTL":   {"ASK", "expire", "asking expire"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := newStub(t, answers(nil))
			replies := make(map[string]string)
			for command := range strings.FieldsSeq(tc.commands) {
				replies[command+" 2"] = fmt.Sprintf("-%s 1234 %s\r\n", tc.code, other.addr)
			}
			server := newStub(t, answers(replies))
			nodes := map[string]*goredis.Client{other.addr: testClient(t, other.addr, ample)}
			on := kinds["a command each"](testClient(t, server.addr, ample), nodes)
			s := plainStore(t, redis.Over(on, ample))
			if err := decide(s, ample, "\x00a_", "\x00b_", "\x00c_"); err != nil {
				t.Error(err)
			}
			if got, want := server.commands(), "incrby expire incrby expire incrby expire"; got != want {
				t.Errorf("the first node was asked %q, want %q: all in one pipeline, whatever their slots", got, want)
			}
			if got := other.commands(); got != tc.want {
				t.Errorf("the node named was asked %q, want %q", got, tc.want)
			}
			if got := s.Stats().Redirects; got != 1 {
				t.Errorf("the statistics tell of %d redirects, want 1", got)
			}
		})
	}
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
			backend.Check{Op: backend.Refund, Hits: 5}, map[string]string{"incrby 1": ":-3\r\n", "incrby 2": hangUp},
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
			reply := answers(tc.replies)
			server := newStub(t, func(n int, command []string) string {
				if strings.ToLower(command[0]) == "incrby" {
					last.Store(command[2])
				}
				return reply(n, command)
			})
			s := plainStore(t, redis.Over(fixed{testClient(t, server.addr, ample)}, ample))
			check := hit("\x00a_")
			check.Op, check.Hits = tc.check.Op, tc.check.Hits
			if d := askOne(t, s, check); d != tc.want {
				t.Errorf("got  %+v\nwant %+v", d, tc.want)
			}
			time.Sleep(5 * time.Millisecond)                                                // for what should not come
			if got := strings.ReplaceAll(server.commands(), " ping", ""); got != tc.asked { // a breaker may send some
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
	server := newStub(t, func(n int, command []string) string {
		if strings.ToLower(command[0]) == "incrby" && n == 1 {
			leave()
			time.Sleep(10 * time.Millisecond)
			return ":-3\r\n"
		}
		return ":0\r\n"
	})
	s := plainStore(t, redis.Over(fixed{testClient(t, server.addr, ample)}, ample))
	check := hit("\x00a_")
	check.Op, check.Hits = backend.Refund, 5
	var out [1]backend.Decision
	if err := s.Decide(ctx, []backend.Check{check}, out[:]); err != nil || out[0].Err == nil {
		t.Errorf("%+v, %v; want no answer for a caller who has left", out[0], err)
	}
	wait(t, "what the refund took too much is added again", func() bool { return server.count("incrby") == 2 })
}
