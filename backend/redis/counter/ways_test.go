package counter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/script"
)

// oldest is the release of Redis that has no functions.
const oldest = "redis-6.2"

// scriptOnly is the script without its library.
func scriptOnly() *redis.Script { return redis.NewScript(script.Source()) }

// eachWay lets f count by scripts and then by functions on the same servers of a release, and makes sure that they were
// called so. Where servers have no functions, stores find that out, and f counts by scripts once.
func eachWay(t *testing.T, kind redis.Type, c redis.Config, release string, f func(t *testing.T, code func() *redis.Script)) {
	t.Helper()
	try := func(name string, code func() *redis.Script, want string) {
		before := calls(t, kind, c)
		if !t.Run(name, func(t *testing.T) { f(t, code) }) {
			return
		}
		after := calls(t, kind, c)
		for _, command := range []string{"evalsha", "fcall"} {
			n := after[command] - before[command]
			if command == want && n < 100 || command != want && n > 0 {
				t.Errorf("%s: the servers were called %d times by %s; want many calls, and all by %s", name, n, command, want)
			}
		}
	}
	if release == oldest {
		try("without functions", newScript, "evalsha")
		return
	}
	try("by scripts", scriptOnly, "evalsha")
	try("by functions", newScript, "fcall")
}

// calls are how often each command was called on all servers together.
func calls(t *testing.T, kind redis.Type, c redis.Config) map[string]int {
	t.Helper()
	c.Type = kind
	sum := make(map[string]int)
	err := connect(t, c).Each(t.Context(), func(_ string, do func(...any) (any, error)) error {
		text, err := do("info", "commandstats")
		if err != nil {
			return err
		}
		for line := range strings.Lines(fmt.Sprint(text)) {
			var n int
			name, rest, _ := strings.Cut(line, ":calls=")
			if _, err := fmt.Sscanf(rest, "%d,", &n); err == nil {
				sum[strings.TrimPrefix(name, "cmdstat_")] += n
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
