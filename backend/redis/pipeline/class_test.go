package pipeline

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

func TestRetryNeedsProofOfNoExecution(t *testing.T) {
	for text, want := range map[string]struct {
		kind kind
		addr string
	}{
		"MOVED 3999 10.0.0.1:6381":                       {classMoved, "10.0.0.1:6381"},
		"ASK 3999 [::1]:6381":                            {classAsk, "[::1]:6381"},
		"MOVED 3999 :6381":                               {classMoved, ":6381"},
		"MOVED 3999":                                     {classFinal, ""},
		"TRYAGAIN":                                       {classRetryable, ""},
		"CLUSTERDOWN The cluster is down":                {classLoading, ""},
		"CLUSTERDOWN Hash slot not served":               {classRetryable, ""},
		"LOADING Redis is loading the dataset in memory": {classLoading, ""},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-dat": {classLoading, ""},
		"NOSCRIPT No matching script. Please use EVAL.":                   {classNoScript, ""},
		"READONLY You can't write against a read only re":                 {classReadOnly, ""},
		"-READONLY You can't write against a read only r":                 {classReadOnly, ""},
		"NOPERM User ann has no permissions to run the 'hset' command":    {classFinal, ""},
		"NOPERM this user has no permissions to access one of the keys":   {classFinal, ""},
		"-NOPERM ACL failure in script: User ann may not run 'hset'":      {classFinal, ""},
		"ERR unknown command 'get'":                                       {classFinal, ""},
		"NOPERM User ann has no permissions to run the 'evalsha' command": {classFinal, ""},
		"ERR READONLY":                         {classFinal, ""},
		"OOM command not allowed":              {classFinal, ""},
		"BUSY Redis is busy running a script.": {classFinal, ""},
		"":                                     {classFinal, ""},
	} {
		if got := classifyText(text); got.kind != want.kind || got.addr != want.addr {
			t.Errorf("%q has the class %+v, want %+v", text, got, want)
		}
	}
	for _, err := range []error{io.EOF, goredis.ErrPoolTimeout, goredis.ErrClosed, errors.New("anything")} {
		if got := Classify(err, true); got.kind != classFinal {
			t.Errorf("%v after the command was written has the class %+v; it may have run", err, got)
		}
		if got := Classify(err, false); got.kind != classRetryable {
			t.Errorf("%v before the command was written has the class %+v; it cannot have run", err, got)
		}
	}
}

func TestClassTellsStateAndReason(t *testing.T) {
	for _, test := range []struct {
		err    error
		state  backend.ServerState
		reason backend.Reason
	}{
		{nil, backend.ServerUp, 0},
		{io.EOF, backend.ServerAway, backend.Late},
		{fmt.Errorf("redis:1: PING: %w", io.EOF), backend.ServerAway, backend.Late},
		{fmt.Errorf("redis:1: HSET: %w", ReplyError("OOM command not allowed")), backend.ServerFailing, backend.Refused},
		{ReplyError("away"), backend.ServerFailing, backend.Refused},
		{goredis.Nil, backend.ServerFailing, backend.Down}, // of sentinels that know no primary
		{topology.ErrUnknownCluster, backend.ServerAway, backend.Down},
	} {
		if c := Classify(test.err, true); c.State != test.state || c.Reason != test.reason {
			t.Errorf("%v is of a server that is %v, for the reason %v; want %v, %v", test.err, c.State, c.Reason, test.state, test.reason)
		}
	}
}

// What proves that a function did not run proves nothing of another command, nor of what a script has run up to its
// error.
func TestUncallableFunctionsCountAsNotRun(t *testing.T) {
	for text, want := range map[string]kind{
		"ERR Function not found":                                         classNoScript,
		"ERR unknown command 'fcall', with args beginning":               classNoScript,
		"ERR unknown command `FCALL`, with args beginning:":              classNoScript,
		"NOPERM this user has no permissions to run the 'fcall' command": classNoScript,
		"OOM allow-oom flag is not set on the script":                    classNoScript,
		"MISCONF Errors writing to the AOF file":                         classNoScript,
		"NOREPLICAS Not enough good replicas to write.":                  classNoScript,
		"ERR unknown command 'get'":                                      classFinal,
		"ERR the Function not found":                                     classFinal,
		"NOPERM this user has no permissions to run the 'get' command":   classFinal,
		"READONLY You can't write against a read only replica.":          classReadOnly,
	} {
		if got := (CallMode{Command: "fcall"}).classify(ReplyError(text), true); got.kind != want {
			t.Errorf("%q to FCALL has the class %+v, want %v", text, got, want)
		}
		if want != classNoScript {
			continue
		}
		if got := (CallMode{Command: "evalsha"}).classify(ReplyError(text), true); got.kind != classFinal {
			t.Errorf("%q to EVALSHA has the class %+v; it may have run", text, got)
		}
		if got := classifyText(text); got.kind != classFinal {
			t.Errorf("%q of a check has the class %+v; it would be sent again and again", text, got)
		}
	}
}

// Not even by a client that repeats commands and pipelines, as go-redis does unless it is told otherwise.
func TestGoRedisNeverRepeatsCountingCommands(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 2; size++ {
		server := redistest.NewStub(t, redistest.Answers(map[string]string{"evalsha 1": redistest.HangUp}))
		client := goredis.NewClient(&goredis.Options{Addr: server.Addr, MinRetryBackoff: -1, MaxRetries: 2})
		defer client.Close()
		var commands []goredis.Cmder
		for range size {
			c := newCommand()
			c.reset(time.Time{}, "evalsha", "sha", 1, "key")
			commands = append(commands, c)
		}
		execute(t.Context(), client, commands)
		if got := server.Count("evalsha"); got > size || got == 0 {
			t.Errorf("%d commands were sent as %d", size, got)
		}
	}
}
