package counter

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// TestKeysOfTheGuideAreReal replays the example of KEYS.md: user ann of the shop may send 1,000 requests in an hour and
// 100 in a fixed minute.
func TestKeysOfTheGuideAreReal(t *testing.T) {
	client := startRedis(t)
	hour, err := descriptors.NewLimit(1000, descriptors.Hour, 1, descriptors.SlidingWindow, 0)
	if err != nil {
		t.Fatal(err)
	}
	minute, err := descriptors.NewLimit(100, descriptors.Minute, 1, descriptors.FixedWindow, 0)
	if err != nil {
		t.Fatal(err)
	}
	key := string(AppendKey(nil, []byte("4:shop4:user3:ann"), nil))
	for _, hits := range []struct {
		at    string
		count uint64
	}{{"10:58:30", 2}, {"11:00:05", 3}, {"11:00:40", 1}, {"11:02:10", 5}} {
		at, err := time.Parse(time.DateTime, "2025-10-09 "+hits.at)
		if err != nil {
			t.Fatal(err)
		}
		check := backend.Check{Limits: []descriptors.Limit{hour, minute}, Hits: hits.count}
		err = client.EvalSha(t.Context(), SHA(), []string{key}, at.UnixMicro(), AppendArg(nil, &check)).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	fields, err := client.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	dump := key + "\n"
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		dump += fmt.Sprintf("  %-26s %s\n", strings.Trim(fmt.Sprintf("%q", name), `"`), inHex(fields[name]))
	}
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
