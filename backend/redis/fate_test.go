package redis

import (
	"errors"
	"io"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

func TestOnlyProofAllowsToSendAgain(t *testing.T) {
	for text, want := range map[string]struct {
		fate fate
		addr string
	}{
		"MOVED 3999 10.0.0.1:6381": {moved, "10.0.0.1:6381"},
		"ASK 3999 [::1]:6381":      {asked, "[::1]:6381"},
		"MOVED 3999 :6381":         {moved, ":6381"},
		"MOVED 3999":               {failed, ""},
		"TRYAGAIN":                 {again, ""},
		"NOSCRIPT No matching script. Please use EVAL.":   {unloaded, ""},
		"READONLY You can't write against a read only re": {demoted, ""},
		"-READONLY You can't write against a read only r": {demoted, ""},
		"ERR READONLY":                         {failed, ""},
		"OOM command not allowed":              {failed, ""},
		"BUSY Redis is busy running a script.": {failed, ""},
		"":                                     {failed, ""},
	} {
		if got, addr := judgeText(text); got != want.fate || addr != want.addr {
			t.Errorf("%q has the fate %d %q, want %d %q", text, got, addr, want.fate, want.addr)
		}
	}
	for _, err := range []error{io.EOF, goredis.ErrPoolTimeout, goredis.ErrClosed, errors.New("anything")} {
		if got, _ := judge(err, true); got != failed {
			t.Errorf("%v after the command was written has the fate %d; it may have run", err, got)
		}
		if got, _ := judge(err, false); got != again {
			t.Errorf("%v before the command was written has the fate %d; it cannot have run", err, got)
		}
	}
}
