package yaml

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// grammar is every key by the place that the table in FORMAT.md names.
func grammar() map[string][]string {
	only := slices.DeleteFunc(slices.Clone(inRateLimit.keys), func(key string) bool { return slices.Contains(inListItem.keys, key) })
	return map[string][]string{"file": inFile.keys, "descriptor": inDescriptor.keys, "limit": inListItem.keys,
		"`rate_limit`": only, "item of `replaces`": inReplaces.keys}
}

func formatDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An operator must find every key, and no key that there is not.
func TestFormatListsEveryKey(t *testing.T) {
	want, got := make(map[string]bool), make(map[string]bool)
	for place, keys := range grammar() {
		for _, key := range keys {
			want[place+": "+key] = true
		}
	}
	_, table, _ := strings.Cut(formatDocument(t), "## All keys\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for place := range strings.SplitSeq(strings.TrimSpace(cells[2]), ", ") {
			got[place+": "+strings.Trim(cells[1], " `")] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the table lists\n%s\nwant\n%s", lines(got), lines(want))
	}
}

func lines(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), "\n") }
