package redishistory

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

func TestFormatDocumentExampleHolds(t *testing.T) {
	f := shared(t, topology.Single)
	clock := time.Date(2026, 5, 9, 10, 58, 30, 0, time.UTC)
	s := opened(t, f, func() time.Time { return clock }, nil)
	id := history.ID{Domain: "shop", Path: "user/path"}
	seq := uint64(0)
	count := func(hits uint64) {
		seq++
		_, err := s.Apply(t.Context(), id.Partition(), history.Batch{Writer: "ann", Seq: seq, After: seq - 1,
			Increments: []history.Increment{{ID: id, Minute: clock.Unix() / 60, Hits: hits}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	count(7)
	for _, at := range []struct {
		minute int
		hits   uint64
	}{{0, 3}, {3, 4}, {4, 5}} {
		clock = time.Date(2026, 5, 10, 11, at.minute, 30, 0, time.UTC)
		count(at.hits)
	}
	clock = time.Date(2026, 5, 10, 12, 0, 0, 0, time.UTC)
	historytest.Downsample(t, s, clock)
	example := show(t, f.client(), partitionKey(id.Partition()))
	guide, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), "```\n"+example+"```\n") {
		t.Errorf("FORMAT.md does not show what Redis really holds after its example:\n%s", example)
	}
}

// show writes down the keys of a partition with what they hold.
func show(t *testing.T, client *goredis.Client, prefix string) string {
	t.Helper()
	ctx := t.Context()
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		fmt.Fprintln(&b, key)
		switch client.Type(ctx, key).Val() {
		case "string":
			fmt.Fprintf(&b, "  %s\n", client.Get(ctx, key).Val())
		case "zset":
			for _, z := range client.ZRangeWithScores(ctx, key, 0, -1).Val() {
				fmt.Fprintf(&b, "  %s  %.0f\n", z.Member, z.Score)
			}
		case "hash":
			fields := client.HGetAll(ctx, key).Val()
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("  %-8s %s", name, fields[name]), " "))
			}
		}
	}
	return b.String()
}
