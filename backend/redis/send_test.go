package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// sumCodec is that of redistest.SumScript.
var sumCodec = pipeline.ScriptCodec{AppendKey: redistest.AppendSumKey, AppendArg: redistest.AppendSumArg,
	DecodeReply: redistest.DecodeSum}

// storeOf is a store of a script that is asked by a codec, without probes.
func storeOf(on *topology.Servers, code *pipeline.Script, codec pipeline.ScriptCodec) *Store {
	s := &Store{servers: on, script: code, presence: newPresence(nil)}
	s.Pipeline = pipeline.New(on, codec, code, nil, nil)
	return s
}

// storeOn is a store of the plain script.
func storeOn(t *testing.T, on *topology.Servers) *Store {
	t.Helper()
	s := storeOf(on, pipeline.NewScript(redistest.SumScript), sumCodec)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// decide calls Decide for a hit on each key.
func decide(s *Store, timeout time.Duration, keys ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return backend.DecideAll(ctx, s, redistest.Hits(keys...), make([]backend.Decision, len(keys)))
}

// The forms in which checks are sent: all as one command, a command each, as to a cluster, and an INCRBY and an EXPIRE.
const together, apiece, inPlain = "one command", "a command each", "plain keys"

// sentAs is a store that sends checks to a server in a form, a key for it, and the command that counts.
func sentAs(t *testing.T, form, addr string, timeout time.Duration) (s *Store, key, command string) {
	t.Helper()
	switch form {
	case inPlain:
		return ratelimitStore(t, connect(t, topology.Config{URL: addr, Timeout: timeout})), "\x00a_", "incrby"
	case apiece:
		return storeAt(t, topology.Config{Type: topology.Cluster, URL: addr, Timeout: timeout}), "a", "evalsha"
	}
	return storeOn(t, connect(t, topology.Config{URL: addr, Timeout: timeout})), "a", "evalsha"
}

func TestPossiblyExecutedCommandsAreNeverRetried(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply string
		forms []string
	}{
		"no reply":               {"", []string{together, apiece, inPlain}},
		"the connection closes":  {redistest.HangUp, []string{together, apiece, inPlain}},
		"the connection resets":  {redistest.Reset, []string{together, apiece, inPlain}},
		"out of memory":          {"-OOM command not allowed\r\n", []string{together, apiece, inPlain}},
		"not allowed":            {"-NOPERM no permissions\r\n", []string{together, apiece, inPlain}},
		"half a reply":           {"*2\r\n$1\r\n", []string{together, apiece}},
		"no reply of the script": {"$1\r\n1\r\n", []string{together, apiece}},
		"too many answers":       {"*3\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n", []string{together, apiece}},
		"an error of the script": {"-ERR Error running script\r\n", []string{together, apiece}},
		"a script that was cut":  {"-UNKILLABLE\r\n", []string{together, apiece}},
		"half a number":          {":1", []string{inPlain}},
		"no number":              {"-ERR value is not an integer or out of range\r\n", []string{inPlain}},
		"another type":           {"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", []string{inPlain}},
	} {
		for _, form := range tc.forms {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				sent := make(map[string]int) // by key
				server := redistest.NewStub(t, func(_ int, command []string) string {
					switch name := strings.ToLower(command[0]); name {
					case "evalsha", "incrby":
						mu.Lock()
						sent[command[map[string]int{"evalsha": 3, "incrby": 1}[name]]]++
						mu.Unlock()
					case "expire":
						if !strings.HasSuffix(tc.reply, "\n") {
							return "" // it would be taken for the answer that is missing
						}
						return ":1\r\n"
					case "ping": // so that nothing but its class keeps a check from being sent again
						return "+PONG\r\n"
					}
					return tc.reply
				})
				most := func() (n int) {
					mu.Lock()
					defer mu.Unlock()
					for _, times := range sent {
						n = max(n, times)
					}
					return n
				}
				// On a busy machine a caller may leave before its check is sent, or has arrived: then another one
				// comes, with more time, a key of its own, and to another store, as the last one may have found the
				// server too slow to be asked.
				for deadline := 100 * time.Millisecond; most() == 0; deadline *= 2 {
					if deadline > ample {
						t.Fatalf("no check was sent within %v", ample)
					}
					s, key, _ := sentAs(t, form, server.Addr, ample)
					if err := decide(s, deadline, strings.Replace(key, "a", fmt.Sprint("a", deadline), 1)); !errors.Is(err, ErrUnavailable) {
						t.Fatalf("the error is %v; want one that wraps ErrUnavailable", err)
					}
				}
				time.Sleep(20 * time.Millisecond) // for what should not come
				if n := most(); n > 1 {
					t.Errorf("a check was sent %d times: it could be counted twice", n)
				}
			})
		}
	}
}

func TestUnexecutedCommandsAreRetried(t *testing.T) {
	t.Parallel()
	type row struct {
		replies map[string]string
		want    string // what the server is asked
	}
	once := func(reply, want string) row { return row{map[string]string{"evalsha 1": reply}, want} }
	script := map[string]row{
		"the script is unknown":  once("-NOSCRIPT No matching script.\r\n", "evalsha script evalsha"),
		"the slot is moving":     once("-TRYAGAIN Multiple keys request during rehashing of slot\r\n", "evalsha evalsha"),
		"the cluster is down":    once("-CLUSTERDOWN The cluster is down\r\n", "evalsha evalsha"),
		"the server is loading":  once("-LOADING Redis is loading the dataset in memory\r\n", "evalsha evalsha"),
		"a replica on its own":   once("-MASTERDOWN Link with MASTER is down\r\n", "evalsha evalsha"),
		"a replica":              once("-READONLY You can't write against a read only replica.\r\n", "evalsha evalsha"),
		"a replica, each check":  once("*1\r\n$29\r\n!READONLY You can't write ag.\r\n", "evalsha evalsha"),
		"a replica of Redis 6.2": once("*1\r\n$30\r\n!-READONLY You can't write ag.\r\n", "evalsha evalsha"),
	}
	const readOnly = "-READONLY You can't write against a read only replica.\r\n"
	plainKeys := map[string]row{
		"the slot is moving":  {map[string]string{"incrby 1": "-TRYAGAIN\r\n"}, "incrby expire incrby expire"},
		"the cluster is down": {map[string]string{"incrby 1": "-CLUSTERDOWN The cluster is down\r\n"}, "incrby expire incrby expire"},
		"the server loads": {map[string]string{"incrby 1": "-LOADING\r\n", "expire 1": "-LOADING\r\n"},
			"incrby expire incrby expire"},
		"a replica": {map[string]string{"incrby 1": readOnly, "expire 1": readOnly}, "incrby expire incrby expire"},
		"only the TTL is refused for now": {map[string]string{"expire 1": "-LOADING\r\n", "expire 2": "-TRYAGAIN\r\n"},
			"incrby expire expire expire"},
		"the TTL is refused for good": {map[string]string{"expire 1": "-ERR no\r\n"}, "incrby expire"},
		"the TTL's answer is lost":    {map[string]string{"expire 1": redistest.HangUp}, "incrby expire expire"},
	}
	for form, rows := range map[string]map[string]row{together: script, apiece: script, inPlain: plainKeys} {
		for name, tc := range rows {
			t.Run(name+", "+form, func(t *testing.T) {
				t.Parallel()
				server := redistest.NewStub(t, redistest.Answers(tc.replies))
				s, key, _ := sentAs(t, form, server.Addr, ample)
				if err := decide(s, ample, key); err != nil {
					t.Errorf("%v; the replies prove that the check did not run, or that it did", err)
				}
				if got := server.Commands(); got != tc.want {
					t.Errorf("the server was asked %q, want %q", got, tc.want)
				}
			})
		}
	}
}

// In a cluster each command has its own class: what counted is not sent again with another that did not run, nor after
// a TTL that must go elsewhere.
func TestRedirectsAreFollowed(t *testing.T) {
	t.Parallel()
	const three, six = "evalsha evalsha evalsha", "incrby expire incrby expire incrby expire"
	for name, tc := range map[string]struct {
		code  string
		moved []string // the commands of the first node that are
		first string   // all that it is asked
		want  string   // of the node that is named
	}{
		"MOVED":                    {"MOVED", []string{"evalsha 1", "evalsha 3"}, three, "evalsha evalsha"},
		"ASK":                      {"ASK", []string{"evalsha 1", "evalsha 3"}, three, "asking evalsha asking evalsha"},
		"TRYAGAIN":                 {"TRYAGAIN", []string{"evalsha 2"}, three + " evalsha", ""},
		"plain keys, MOVED":        {"MOVED", []string{"incrby 2", "expire 2"}, six, "incrby expire"},
		"plain keys, ASK":          {"ASK", []string{"incrby 2", "expire 2"}, six, "asking incrby asking expire"},
		"plain keys, MOVED of TTL": {"MOVED", []string{"expire 2"}, six, "expire"},
		"plain keys, ASK of TTL":   {"ASK", []string{"expire 2"}, six, "asking expire"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other, replies := redistest.NewStub(t, redistest.Answers(nil)), make(map[string]string)
			for _, command := range tc.moved {
				replies[command] = fmt.Sprintf("-%s 1234 %s\r\n", tc.code, other.Addr)
			}
			server := redistest.NewStub(t, redistest.Answers(replies))
			on := connectMapped(t, topology.Config{Type: topology.Cluster, URL: server.Addr})
			s, keys := storeOn(t, on), []string{"a", "b", "c"}
			if tc.first == six {
				s, keys = ratelimitStore(t, on), []string{"\x00a_", "\x00b_", "\x00c_"}
			}
			maps := server.Count("cluster")
			if err := decide(s, ample, keys...); err != nil {
				t.Error(err)
			}
			if got := server.Commands(); got != tc.first {
				t.Errorf("the first node was asked %q, want %q", got, tc.first)
			}
			if got := other.Commands(); got != tc.want {
				t.Errorf("the node named was asked %q, want %q", got, tc.want)
			}
			if tc.code != "ASK" && tc.first != six {
				redistest.Until(t, "the cluster's map is read anew", func() bool { return server.Count("cluster") > maps })
			}
		})
	}
}

func TestCircularRedirectsEnd(t *testing.T) {
	t.Parallel()
	var server *redistest.Stub
	server = redistest.NewStub(t, func(int, []string) string { return fmt.Sprintf("-MOVED 1 %s\r\n", server.Addr) })
	if err := decide(storeAt(t, topology.Config{Type: topology.Cluster, URL: server.Addr}), ample, "a"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v; want ErrUnavailable", err)
	}
	if got := server.Count("evalsha"); got > 20 {
		t.Errorf("the check was sent %d times, want 20 at most", got)
	}
}

// Whoever comes first has to leave before the connection is greeted. The next one must find it, and not begin anew.
func TestSlowGreetingStillYieldsAConnection(t *testing.T) {
	t.Parallel()
	for _, form := range []string{together, inPlain} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			server := redistest.NewStub(t, redistest.Answers(nil))
			server.Greeting = 300 * time.Millisecond
			s, key, command := sentAs(t, form, server.Addr, ample)
			if err := decide(s, 200*time.Millisecond, key, key); !errors.Is(err, ErrUnavailable) {
				t.Errorf("the first call gave %v, want ErrUnavailable, as its time was over", err)
			}
			redistest.Until(t, "the connection is ready", func() bool { return server.Count("ping") > 0 })
			if got := server.Count(command); got != 0 {
				t.Errorf("checks whose caller had left were sent, in %d commands", got)
			}
			if err := decide(s, ample, key); err != nil {
				t.Errorf("with a connection that is ready: %v", err)
			}
			// A PING that is still under way may have the one to itself.
			if got := server.Count("hello"); got > 2 {
				t.Errorf("%d connections were made, want one, or one beside a PING: not one for each caller who has left", got)
			}
		})
	}
}
