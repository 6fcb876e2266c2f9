package counter

import (
	"fmt"
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
		for size := 1; size <= 2; size++ {
			t.Run(fmt.Sprint(name, ", ", size, " commands"), func(t *testing.T) {
				t.Parallel()
				server := newStub(t, answers(map[string]string{"evalsha 1": reply, "evalsha 2": reply}))
				client := goredis.NewClient(&goredis.Options{
					Addr: server.addr, ReadTimeout: 200 * time.Millisecond, ContextTimeoutEnabled: true,
					MinRetryBackoff: -1, MaxRetries: 2,
				})
				defer client.Close()
				commands := []goredis.Cmder{counting(), counting()}[:size]
				if size == 1 {
					_ = client.Process(t.Context(), commands[0])
				} else {
					pipe := client.Pipeline()
					_ = pipe.BatchProcess(t.Context(), commands...)
					_, _ = pipe.Exec(t.Context())
				}
				for _, c := range commands {
					if c.Err() == nil {
						t.Errorf("%v has no error", c)
					}
				}
				if got := server.count("evalsha"); got > size || got == 0 {
					t.Errorf("%d commands were sent as %d", size, got)
				}
			})
		}
	}
}

// counting is a command that counts two checks.
func counting() *scriptCall {
	e := newScriptCall()
	e.set(redis.Way{Command: "evalsha", Name: "sha"}, "7", &ask{key: blob("k1"), arg: blob("a1")}, &ask{key: blob("k2"), arg: blob("a2")})
	return e
}

func TestACommandKnowsWhetherItWasWritten(t *testing.T) {
	t.Parallel()
	server := newStub(t, func(_ int, command []string) string { return ones(command) })
	for addr, answered := range map[string]bool{"127.0.0.1:1": false, server.addr: true} {
		e := counting()
		if err := testClient(t, addr, ample).Process(t.Context(), e); (err == nil) != answered || e.written != answered {
			t.Errorf("somebody listens: %t; the error is %v, and written is %t", answered, err, e.written)
		}
	}
}
