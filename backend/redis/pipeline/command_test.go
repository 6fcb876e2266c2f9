package pipeline

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// Clients that repeat commands, as go-redis does unless told otherwise, and pipelines, which it repeats even then: the
// last command is what decides.
func TestTheLibraryNeverRepeatsACountingCommand(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"no reply":              "",
		"the connection closes": redistest.HangUp,
		"the connection resets": redistest.Reset,
		"TRYAGAIN":              "-TRYAGAIN\r\n",
		"LOADING":               "-LOADING\r\n",
		"READONLY":              "-READONLY\r\n",
		"CLUSTERDOWN":           "-CLUSTERDOWN\r\n",
	} {
		for size := 1; size <= 2; size++ {
			t.Run(fmt.Sprint(name, ", ", size, " commands"), func(t *testing.T) {
				t.Parallel()
				server := redistest.NewStub(t, redistest.Answers(map[string]string{"evalsha 1": reply, "evalsha 2": reply}))
				client := goredis.NewClient(&goredis.Options{
					Addr: server.Addr, ReadTimeout: 200 * time.Millisecond, ContextTimeoutEnabled: true,
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
				if got := server.Count("evalsha"); got > size || got == 0 {
					t.Errorf("%d commands were sent as %d", size, got)
				}
			})
		}
	}
}

// counting is a command that counts two checks.
func counting() *Command {
	var requests []*Request
	for _, name := range []string{"1", "2"} {
		requests = append(requests, &Request{At: topology.At{Key: []byte("k" + name)}, Payload: Blob("a" + name)})
	}
	return NewScriptCall(CallMode{Command: "evalsha", Name: "sha"}, "7", requests)
}

func TestACommandKnowsWhetherItWasWritten(t *testing.T) {
	t.Parallel()
	server := redistest.NewStub(t, func(_ int, command []string) string { return redistest.Ones(command) })
	for addr, answered := range map[string]bool{"127.0.0.1:1": false, server.Addr: true} {
		e := counting()
		if err := testClient(t, addr, ample).Process(t.Context(), e); (err == nil) != answered || e.Written != answered {
			t.Errorf("somebody listens: %t; the error is %v, and written is %t", answered, err, e.Written)
		}
	}
}
