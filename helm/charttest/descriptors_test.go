package charttest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// exampleFiles are the descriptor files that the repository shows, by where they stand.
func exampleFiles(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, name := range []string{"cmd/weir/bench/descriptors.yaml", "descriptors/testdata/explained.yaml", "helm/weir/files/shop.yaml",
		"k8s/base/config/shop.yaml", "server/rls/testdata/everything.yaml"} {
		files[name] = readText(t, filepath.Join(root, name))
	}
	for _, name := range []string{"descriptors/FORMAT.md", "k8s/cookbook/README.md"} {
		document := readText(t, filepath.Join(root, name))
		for _, at := range fencedBlock.FindAllStringSubmatchIndex(document, -1) {
			block := document[at[4]:at[5]]
			if document[at[2]:at[3]] != "yaml" || !strings.HasPrefix(block, "- ") {
				continue // a file's head, or what is Envoy's
			}
			line := 1 + strings.Count(document[:at[0]], "\n")
			files[fmt.Sprintf("%s:%d", name, line)] = "domain: shop\ndescriptors:\n" + block
		}
	}
	return files
}

// What the chart takes for a descriptor file is one that weir takes, and it takes all that the documents show.
func TestEveryExampleIsAValueThatWeirTakes(t *testing.T) {
	t.Parallel()
	taken, files := 0, exampleFiles(t)
	for name, text := range files {
		if _, code := checkedText(text); code != 0 {
			continue // a block that shows what is wrong
		}
		rendered, err := tryRender(t, "weir", map[string]any{"descriptors": map[string]any{"shop.yaml": valuesOf(t, text)}})
		if err != nil {
			t.Errorf("%s: weir takes it as a file, and the chart refuses it as a value: %v", name, err)
			continue
		}
		taken++
		if out, code := checkedBy(t, rendered); code != 0 {
			t.Errorf("%s: the chart takes it as a value, and weir refuses what it renders: %s", name, out)
		}
	}
	if taken < 20 || taken == len(files) {
		t.Errorf("%d of %d examples are right: this test looks in the wrong place", taken, len(files))
	}
}

// A number must come to weir as it was written, however large.
func TestLargeNumbersOfValuesReachWeir(t *testing.T) {
	t.Parallel()
	rendered := render(t, "weir", valuesOf(t, "descriptors: {shop.yaml: {domain: shop, descriptors: "+
		"[{key: user, value: 123456789, rate_limit: {unit: hour, requests_per_unit: 4294967295}}]}}"))
	out, code := checkedBy(t, rendered, "--explain", "user=123456789")
	if code != 0 || !strings.Contains(out, "4294967295/hour") {
		t.Errorf("exit code %d, want the rule of user=123456789 with 4294967295/hour:\n%s", code, out)
	}
}
