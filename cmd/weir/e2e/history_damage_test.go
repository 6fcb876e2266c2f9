package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
)

// mailID is a series beside that of the rule. In a file it lies behind it.
var mailID = func() history.ID {
	for n := 0; ; n++ {
		id := history.ID{Domain: "mail", Path: fmt.Sprint("from", n), Outcome: history.Over}
		if id.Partition() > historyID.Partition() {
			return id
		}
	}
}()

// fillTwo brings ten minutes of hits to the series of the rule, and 7 to another one.
func fillTwo(t *testing.T, store interface {
	history.Store
	Close() error
}) {
	t.Helper()
	fill(t, store, 10)
	r, err := store.Apply(t.Context(), mailID.Partition(), history.Batch{Writer: "filled too", Seq: 1,
		Increments: []history.Increment{{ID: mailID, Minute: time.Now().Unix() / 60, Hits: 7}}})
	if err != nil || r.Landing != history.Landed {
		t.Fatalf("filling a history: %+v, %v", r, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// expectDamage wants weir history to name the damaged series of the rule and the key at fault, and to give the other one.
func expectDamage(t *testing.T, env []string, key string, flags ...string) {
	t.Helper()
	victim, other := "shop plan/user within", "mail "+mailID.Path
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"verify"}, []string{"NOT EXACT  " + victim + " cannot be read: ", key, "Looked at 2 series with", ": 1 of them not exact."}},
		{[]string{"show"}, []string{victim + " is left out, as it cannot be read: ", key, other + "  over", "total 7   lifetime 7"}},
		{[]string{"top"}, []string{victim + " is left out, as it cannot be read: ", key, "7  ████████████████████  " + other}},
		{[]string{"show", "--domain", "shop"}, []string{victim + " is left out, as it cannot be read: ", key, "No other hits"}},
	} {
		printed, code := command(t, env, append(append([]string{"history"}, c.args...), flags...)...)
		for _, want := range c.want {
			if code != 1 || !strings.Contains(printed, want) {
				t.Errorf("weir history %s ends with %d and prints\n%s\nwant 1, and %q in it: one damaged value must not hide the rest",
					strings.Join(c.args, " "), code, printed, want)
			}
		}
	}
	printed, code := command(t, env, append([]string{"history", "show", "--json"}, flags...)...)
	var answer struct {
		Warnings   []string
		Unreadable int
		Series     []struct{ Domain string }
	}
	if err := json.Unmarshal([]byte(printed), &answer); err != nil || code != 1 || answer.Unreadable != 1 ||
		len(answer.Warnings) != 1 || len(answer.Series) != 1 || answer.Series[0].Domain != "mail" {
		t.Errorf("with --json it ends with %d (%v) and prints\n%s\nwant 1, a warning and the other series", code, err, printed)
	}
}

func TestADamagedValueInRedisIsNamedAndHidesNoOtherSeries(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	client := server.Client()
	env := []string{"REDIS_URL=" + server.Addr, "REDIS_TIMEOUT=5s"}
	// keyOf is the key of the rule's series, or with a pattern behind it that of one of its chunks.
	keyOf := func(t *testing.T, pattern string) string {
		t.Helper()
		keys, err := client.Keys(t.Context(), fmt.Sprintf("%s{%d}:????????????????%s", redishistory.Prefix, historyID.Partition(), pattern)).Result()
		if err != nil || len(keys) == 0 {
			t.Fatalf("no key is like %q (%v): the layout is not what this test thinks", pattern, err)
		}
		return keys[0]
	}
	for _, c := range []struct {
		kind    string
		pattern string // of the key
		command []any  // its name, and what follows the key
	}{
		{"a total that is no number", "", []any{"hset", "total", "not a number"}},
		{"a series that is a string", "", []any{"set", "garbage"}},
		{"a field that is no number", ":m*", []any{"hset", "5", "garbage"}},
		{"a chunk that is a string", ":m*", []any{"set", "garbage"}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			fillTwo(t, openSeries(t, redis.Config{URL: server.Addr}))
			key := keyOf(t, c.pattern)
			if err := client.Do(t.Context(), append([]any{c.command[0], key}, c.command[1:]...)...).Err(); err != nil {
				t.Fatal(err)
			}
			expectDamage(t, env, key)
		})
	}
	t.Run("a field that is gone", func(t *testing.T) {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		fillTwo(t, openSeries(t, redis.Config{URL: server.Addr}))
		key := keyOf(t, ":m*")
		for minute, hits := range client.HGetAll(t.Context(), key).Val() {
			client.HDel(t.Context(), key, minute)
			printed, code := command(t, env, "history", "verify")
			if code != 1 || !strings.Contains(printed, "NOT EXACT  shop plan/user within: ") || !strings.Contains(printed, ": "+hits+" are missing\n") {
				t.Errorf("without the %s hits of a minute weir history verify ends with %d and prints %s", hits, code, printed)
			}
			break
		}
	})
}

func TestADamagedChunkInTheFileIsNamedAndHidesNoOtherSeries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Keep: history.DefaultKeep()})
	if err != nil {
		t.Fatal(err)
	}
	fillTwo(t, store)
	key := historytest.SpoilChunk(t, filepath.Join(dir, filehistory.Name))
	w := startWeir(t, historyRules, "DATA_DIR="+dir)
	expectDamage(t, nil, key, "--admin", strings.TrimPrefix(w.admin, "http://"))
}
