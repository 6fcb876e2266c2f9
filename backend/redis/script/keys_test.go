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

// TestKeysDocumentExamplesHold replays the examples of KEYS.md: user ann of the shop may send 1,000 requests in an hour
// and 100 in a fixed minute; or 60 in an hour by a token bucket of 20; or 1,000 in an hour by a log.
func TestKeysDocumentExamplesHold(t *testing.T) {
	client := startRedis(t)
	guide, err := os.ReadFile("../KEYS.md")
	if err != nil {
		t.Fatal(err)
	}
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
		if dump := dumpHash(t, client, replay(t, client, limits...)); !strings.Contains(string(guide), dump) {
			t.Errorf("KEYS.md does not show what Redis really holds after the example's checks:\n%s", dump)
		}
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

// TestReadmeTableMatchesRedis replays the example that README.md opens with, and compares its table of what Redis
// holds.
func TestReadmeTableMatchesRedis(t *testing.T) {
	client := startRedis(t)
	limits := []descriptors.Limit{backendtest.NewLimit(t, 10, descriptors.Minute, 1, descriptors.SlidingWindow, 0),
		backendtest.NewLimit(t, 500, descriptors.Hour, 1, descriptors.SlidingWindow, 0)}
	key, noon := string(AppendKey(nil, []byte("4:shop4:user3:ann"))), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	hit := func(after time.Duration) {
		asFunction.ask(t, client, key, noon.Add(after).UnixMicro(), backend.Check{Limits: limits, Hits: 1})
	}
	for i := range time.Duration(33) {
		hit((i - 55) * time.Minute)
	}
	for i := range time.Duration(7) {
		hit((1 + 4*i) * time.Second)
	}
	hit(33200 * time.Millisecond)

	fields, err := client.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	minute, hour := headerOf(t, fields["s1os"]), headerOf(t, fields["s2s0m"])
	clock := func(header [6]int64, number int, width time.Duration, layout string) string {
		return time.Unix(0, 0).UTC().Add(time.Duration(header[number]) * width).Format(layout)
	}
	seconds := func(number int) string { return clock(minute, number, time.Second, time.TimeOnly) }
	minutes := func(number int) string { return clock(hour, number, time.Minute, "15:04") }
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("| %d seconds with one hit each, %s to %s | %d minutes with one hit each, %s to %s |",
			minute[0], seconds(1), seconds(2), hour[0], minutes(1), minutes(2)),
		fmt.Sprintf("| running sum of these | %d | %d |", minute[0], hour[0]),
		fmt.Sprintf("| live bucket | second %s: %d | minute %s: %d |", seconds(4), minute[5], minutes(4), hour[5]),
		fmt.Sprintf("| **the window: running sum + live bucket** | **%d** | **%d** |", minute[0]+minute[5], hour[0]+hour[5]),
	} {
		if !strings.Contains(string(readme), row) {
			t.Errorf("README.md does not show what Redis really holds after its example: %s", row)
		}
	}
}

// headerOf reads the six numbers of a sliding window's header.
func headerOf(t *testing.T, field string) (numbers [6]int64) {
	t.Helper()
	if len(field) != 7*len(numbers) {
		t.Fatalf("a header of %d bytes, want six numbers of seven", len(field))
	}
	for i := range numbers {
		numbers[i] = number56(field[7*i:])
	}
	return numbers
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
