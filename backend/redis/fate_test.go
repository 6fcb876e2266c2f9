package redis

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

func TestOnlyProofAllowsToSendAgain(t *testing.T) {
	for text, want := range map[string]Fate{
		"MOVED 3999 10.0.0.1:6381": {moved, "10.0.0.1:6381"},
		"ASK 3999 [::1]:6381":      {asked, "[::1]:6381"},
		"MOVED 3999 :6381":         {moved, ":6381"},
		"MOVED 3999":               {failed, ""},
		"TRYAGAIN":                 {again, ""},
		"NOSCRIPT No matching script. Please use EVAL.":                   {unloaded, ""},
		"READONLY You can't write against a read only re":                 {demoted, ""},
		"-READONLY You can't write against a read only r":                 {demoted, ""},
		"NOPERM User ann has no permissions to run the 'hset' command":    {failed, ""},
		"NOPERM this user has no permissions to access one of the keys":   {failed, ""},
		"-NOPERM ACL failure in script: User ann may not run 'hset'":      {failed, ""},
		"ERR unknown command 'get'":                                       {failed, ""},
		"NOPERM User ann has no permissions to run the 'evalsha' command": {failed, ""},
		"ERR READONLY":                         {failed, ""},
		"OOM command not allowed":              {failed, ""},
		"BUSY Redis is busy running a script.": {failed, ""},
		"":                                     {failed, ""},
	} {
		if got := JudgeText(text); got != want {
			t.Errorf("%q has the fate %+v, want %+v", text, got, want)
		}
	}
	for _, err := range []error{io.EOF, goredis.ErrPoolTimeout, goredis.ErrClosed, errors.New("anything")} {
		if got := Judge(err, true); got.kind != failed {
			t.Errorf("%v after the command was written has the fate %+v; it may have run", err, got)
		}
		if got := Judge(err, false); got.kind != again {
			t.Errorf("%v before the command was written has the fate %+v; it cannot have run", err, got)
		}
	}
}

// What proves that a function did not run proves nothing of another command, nor of what a script has run up to its error.
func TestAFunctionThatCannotBeCalledDidNotRun(t *testing.T) {
	for text, want := range map[string]kind{
		"ERR Function not found":                                         unloaded,
		"ERR unknown command 'fcall', with args beginning":               unloaded,
		"ERR unknown command `FCALL`, with args beginning:":              unloaded,
		"NOPERM this user has no permissions to run the 'fcall' command": unloaded,
		"OOM allow-oom flag is not set on the script":                    unloaded,
		"MISCONF Errors writing to the AOF file":                         unloaded,
		"NOREPLICAS Not enough good replicas to write.":                  unloaded,
		"ERR unknown command 'get'":                                      failed,
		"ERR the Function not found":                                     failed,
		"NOPERM this user has no permissions to run the 'get' command":   failed,
		"READONLY You can't write against a read only replica.":          demoted,
	} {
		if got := (Way{Command: "fcall"}).Judge(replyError(text), true); got.kind != want {
			t.Errorf("%q to FCALL has the fate %+v, want %v", text, got, want)
		}
		if want != unloaded {
			continue
		}
		if got := (Way{Command: "evalsha"}).Judge(replyError(text), true); got.kind != failed {
			t.Errorf("%q to EVALSHA has the fate %+v; it may have run", text, got)
		}
		if got := JudgeText(text); got.kind != failed {
			t.Errorf("%q of a check has the fate %+v; it would be sent again and again", text, got)
		}
	}
}

// replyError is an error that a server answered with.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestAWrongPasswordIsNotTriedAgain(t *testing.T) {
	server := redistest.Single(t, redistest.WithPassword(secret))
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, Password: "x", MaxRetries: -1})
	defer client.Close()
	err := client.Ping(t.Context()).Err()
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Fatalf("%v; want WRONGPASS", err)
	}
	if f := Judge(fmt.Errorf("init: %w", err), false); f.kind != failed {
		t.Error("a wrong password stays wrong: the caller has to hear of it at once")
	}
}
