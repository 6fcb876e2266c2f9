package charttest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// Who comments out all that stands below a key leaves it empty, and Helm then takes its defaults away.
func TestAKeyLeftEmptyRendersOrIsRefusedByName(t *testing.T) {
	defaults, err := ReadValues(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	paths := keysOf(defaults, nil)
	if len(paths) < 150 {
		t.Fatalf("values.yaml has only %d keys: this test looks in the wrong place", len(paths))
	}
	c, err := Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	holes := regexp.MustCompile(`(?m)^.*(: null|nil>.*|%!.*)$`)
	for _, path := range paths {
		r, err := Render(c, Release{Name: "weir", Namespace: "limits", Values: loader.MergeMaps(map[string]any{
			"redis": map[string]any{"addresses": []any{"redis:6379"}},
		}, empty(path))})
		if err != nil {
			if !strings.Contains(err.Error(), strings.Join(path, ".")+" is empty") {
				t.Errorf("with %s left empty a template stumbles, and does not say over what: %v", strings.Join(path, "."), err)
			}
			continue
		}
		for _, o := range r.Objects {
			for _, hole := range holes.FindAllString(o.Text, -1) {
				if key := strings.TrimSpace(hole); key != "resources: null" && key != "securityContext: null" { // these say: none
					t.Errorf("with %s left empty %s says %q", strings.Join(path, "."), o, key)
				}
			}
		}
	}
}

// keysOf are the paths of all keys in a tree, those above before those below.
func keysOf(tree map[string]any, above []string) (paths [][]string) {
	for key, value := range tree {
		path := append(slices.Clone(above), key)
		paths = append(paths, path)
		if below, isMap := value.(map[string]any); isMap {
			paths = append(paths, keysOf(below, path)...)
		}
	}
	return paths
}

// empty are values that leave a key empty.
func empty(path []string) map[string]any {
	if len(path) == 1 {
		return map[string]any{path[0]: nil}
	}
	return map[string]any{path[0]: empty(path[1:])}
}
