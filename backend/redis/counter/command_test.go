package counter

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis"
)

// Clients that repeat commands, as go-redis does unless told otherwise, and pipelines, which it repeats even then: the
// last command is what decides.
func TestTheLibraryNeverRepeatsACountingCommand(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"no reply":              "",
		"the connection closes": hangUp,
		"the connection resets": reset,
		"TRYAGAIN":              "-TRYAGAIN\r\n",
		"LOADING":               "-LOADING\r\n",
		"READONLY":              "-READONLY\r\n",
		"CLUSTERDOWN":           "-CLUSTERDOWN\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := func(commands int, send func(client *goredis.Client, commands []goredis.Cmder)) int {
				server := newStub(t, func(_ int, command []string) string {
					if command[0] != "evalsha" {
						return "+OK\r\n"
					}
					return reply
				})
				client := goredis.NewClient(&goredis.Options{
					Addr: server.addr, ReadTimeout: 200 * time.Millisecond, ContextTimeoutEnabled: true,
					MinRetryBackoff: -1, MaxRetries: 2,
				})
				defer client.Close()
				each := make([]goredis.Cmder, commands)
				for i := range each {
					e := newScriptCall()
					e.set(redis.Way{Command: "evalsha", Name: "sha"}, "", &ask{})
					each[i] = e
				}
				send(client, each)
				for _, e := range each {
					if e.Err() == nil {
						t.Errorf("%v has no error", e)
					}
				}
				return server.count("evalsha")
			}
			if got := sent(1, func(client *goredis.Client, commands []goredis.Cmder) {
				_ = client.Process(context.Background(), commands[0])
			}); got != 1 {
				t.Errorf("one command was sent %d times", got)
			}
			if got := sent(2, func(client *goredis.Client, commands []goredis.Cmder) {
				pipe := client.Pipeline()
				_ = pipe.BatchProcess(context.Background(), commands...)
				_, _ = pipe.Exec(context.Background())
			}); got > 2 || got == 0 {
				t.Errorf("a pipeline of two commands was sent as %d", got)
			}
		})
	}
}

func TestACommandKnowsWhetherItWasWritten(t *testing.T) {
	t.Parallel()
	e := newScriptCall()
	e.set(redis.Way{Command: "evalsha", Name: "sha"}, "7", &ask{key: blob("k1"), arg: blob("a1")}, &ask{key: blob("k2"), arg: blob("a2")})
	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	if err := client.Process(context.Background(), e); err == nil || e.written {
		t.Errorf("nobody listens: the error is %v, and written is %t", err, e.written)
	}
	server := newStub(t, func(_ int, command []string) string { return ones(command) })
	answering := testClient(t, server.addr, time.Second)
	e.set(redis.Way{Command: "evalsha", Name: "sha"}, "7", &ask{key: blob("k1"), arg: blob("a1")}, &ask{key: blob("k2"), arg: blob("a2")})
	if err := answering.Process(context.Background(), e); err != nil || !e.written {
		t.Errorf("the error is %v, and written is %t", err, e.written)
	}
}
