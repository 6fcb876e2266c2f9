package yaml

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
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

// A key whose example does not work is not shown to anyone: what examples make is tested in cmd/weir.
func TestFormatHasAnExampleOfEveryKey(t *testing.T) {
	shown := make(map[string]bool)
	for i, block := range strings.Split(formatDocument(t), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```\n")
		if strings.HasPrefix(text, "-") {
			text = "domain: shop\ndescriptors:\n" + text
		}
		if _, problems := Parse([]File{{fmt.Sprint("example ", i+1), []byte(text)}}, Options{}); problems.Err() != nil {
			continue // an example of what is wrong
		}
		var root yaml.Node
		if err := yaml.Unmarshal([]byte(text), &root); err != nil {
			t.Fatal(err)
		}
		showKeys(root.Content[0], "file", shown)
	}
	for place, keys := range grammar() {
		for _, key := range keys {
			if !shown[place+": "+key] {
				t.Errorf("no example has the key %s of %s", key, place)
			}
		}
	}
}

// showKeys adds the keys of a mapping, by the place that it stands in, and of those below it.
func showKeys(n *yaml.Node, place string, shown map[string]bool) {
	n = follow(n)
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			showKeys(item, place, shown)
		}
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	below := map[string]string{"descriptors": "descriptor", "rate_limit": "limit", "rate_limits": "limit", "replaces": "item of `replaces`"}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		shown[place+": "+key] = true
		if place == "limit" {
			shown["`rate_limit`: "+key] = true
		}
		if in, ok := below[key]; ok {
			showKeys(n.Content[i+1], in, shown)
		}
	}
}
