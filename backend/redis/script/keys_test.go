package script

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/descriptors"
)

// TestKeysOfTheGuideAreReal replays the examples of KEYS.md: user ann of the shop may send 1,000 requests in an hour
// and 100 in a fixed minute; or 60 in an hour by a token bucket of 20; or 1,000 in an hour by a log.
func TestKeysOfTheGuideAreReal(t *testing.T) {
	client := startRedis(t)
	bucket, err := backendtest.NewLimit(t, 60, descriptors.Hour, 1, descriptors.TokenBucket, 0).WithBurst(20)
	if err != nil {
		t.Fatal(err)
	}
	for _, limits := range [][]descriptors.Limit{
		{backendtest.NewLimit(t, 1000, descriptors.Hour, 1, descriptors.SlidingWindow, 0),
			backendtest.NewLimit(t, 100, descriptors.Minute, 1, descriptors.FixedWindow, 0)},
		{bucket},
		{backendtest.NewLimit(t, 1000, descriptors.Hour, 1, descriptors.SlidingLog, 0)},
	} {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		inGuide(t, dumpHash(t, client, replay(t, client, limits...)))
	}
}

// dumpHash lists the fields of a key.
func dumpHash(t *testing.T, client *redis.Client, key string) string {
	t.Helper()
	fields, err := client.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	dump := key + "\n"
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		dump += fmt.Sprintf("  %-26s %s\n", strings.Trim(fmt.Sprintf("%q", name), `"`), inHex(fields[name]))
	}
	return dump
}

// replay asks what the guide's examples ask, and returns the key in Redis.
func replay(t *testing.T, client *redis.Client, limits ...descriptors.Limit) string {
	t.Helper()
	key := string(AppendKey(nil, []byte("4:shop4:user3:ann")))
	for _, hits := range []struct {
		at    string
		count uint64
	}{{"10:58:30", 2}, {"11:00:05", 3}, {"11:00:40", 1}, {"11:02:10", 5}} {
		at, err := time.Parse(time.DateTime, "2025-10-09 "+hits.at)
		if err != nil {
			t.Fatal(err)
		}
		asFunction.ask(t, client, key, at.UnixMicro(), backend.Check{Limits: limits, Hits: hits.count})
	}
	return key
}

func inGuide(t *testing.T, dump string) {
	t.Helper()
	guide, err := os.ReadFile("../KEYS.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), dump) {
		t.Errorf("KEYS.md does not show what Redis really holds after the example's checks:\n%s", dump)
	}
}

// inHex writes bytes, sevens of a header and a chunk's long rows of zeros apart.
func inHex(value string) string {
	size := 7
	if len(value)%7 != 0 {
		size = len(value)
	}
	var parts []string
	for part := range slices.Chunk([]byte(value), size) {
		parts = append(parts, fmt.Sprintf("%x", part))
	}
	return strings.Join(parts, " ")
}
