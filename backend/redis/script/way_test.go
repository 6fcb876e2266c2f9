package script

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
)

// way is how a call goes to a server.
type way struct {
	name string
	call func(ctx context.Context, c redis.Cmdable, keys []string, now any, checks ...*backend.Check) *redis.Cmd
}

var (
	sha      = redis.NewScript(Source()).Hash()
	function = Function() // it is made of the whole source, which would keep a call waiting
	// asScript makes all functions at each call.
	asScript = way{"EVALSHA", func(ctx context.Context, c redis.Cmdable, keys []string, now any, checks ...*backend.Check) *redis.Cmd {
		return c.EvalSha(ctx, sha, keys, arguments(now, checks)...)
	}}
	// asFunction keeps them, and what they have read of earlier checks.
	asFunction = way{"FCALL", func(ctx context.Context, c redis.Cmdable, keys []string, now any, checks ...*backend.Check) *redis.Cmd {
		return c.FCall(ctx, function, keys, arguments(now, checks)...)
	}}
)

// ask makes one check of a key.
func (w way) ask(t testing.TB, c redis.Cmdable, key string, now int64, check backend.Check) backend.Decision {
	t.Helper()
	reply, err := w.call(t.Context(), c, []string{key}, now, &check).StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(reply[0], &check)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ends makes a check of a key that somebody has damaged. It is to end, with a decision or an error of its own.
func (w way) ends(t testing.TB, c redis.Cmdable, key string, now int64, check backend.Check) {
	t.Helper()
	if err := w.call(t.Context(), c, []string{key}, now, &check).Err(); err != nil {
		t.Fatalf("%+v failed as a whole, or did not end: %v", check, err)
	}
}

// arguments lists each question once.
func arguments(now any, checks []*backend.Check) []any {
	var asked []byte
	args, places := []any{now, nil}, make(map[string]byte)
	for _, c := range checks {
		question := string(AppendArg(nil, c))
		if places[question] == 0 {
			args = append(args, question)
			places[question] = byte(len(places) + 1)
		}
		asked = append(asked, places[question])
	}
	args[1] = asked
	return args
}
