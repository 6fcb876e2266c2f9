package charttest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// Who comments out all that stands below a key leaves it empty, and Helm then takes its defaults away.
func TestAKeyLeftEmptyRendersOrIsRefusedByName(t *testing.T) {
	t.Parallel()
	paths := keysOf(defaults(t), nil)
	if len(paths) < 150 {
		t.Fatalf("values.yaml has only %d keys: this test looks in the wrong place", len(paths))
	}
	for _, path := range paths {
		key := strings.Join(path, ".")
		t.Run(key, func(t *testing.T) {
			wantNoHoles(t, key, loader.MergeMaps(valuesOf(t, "redis: {addresses: ['redis:6379']}"), under(path, nil)))
		})
	}
}

func defaults(t *testing.T) map[string]any {
	t.Helper()
	return valuesOf(t, readText(t, filepath.Join(chartDir, "values.yaml")))
}

// wantNoHoles wants values whose key is empty to render with nothing missing, or to be refused with a sentence.
func wantNoHoles(t *testing.T, key string, values map[string]any) {
	t.Helper()
	r, err := tryRender(t, "weir", values)
	if err != nil {
		if !strings.Contains(err.Error(), key+" is empty") {
			t.Errorf("with %s left empty a template stumbles, and does not say over what: %v", key, err)
		}
		return
	}
	for _, hole := range holesIn(r) {
		t.Errorf("with %s left empty %s", key, hole)
	}
}

var holes = regexp.MustCompile(`(?m)^.*(: null|nil>.*|%!.*)$`)

// holesIn are the lines of objects and notes where a value is missing.
func holesIn(r *Rendered) (found []string) {
	for _, o := range r.Objects {
		for _, hole := range holes.FindAllString(o.Text, -1) {
			if key := strings.TrimSpace(hole); key != "resources: null" && key != "securityContext: null" { // these say: none
				found = append(found, fmt.Sprintf("%s says %q", o, key))
			}
		}
	}
	for _, hole := range holes.FindAllString(r.Notes, -1) {
		found = append(found, fmt.Sprintf("the notes say %q", hole))
	}
	return found
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

// under is a tree with a value at a path.
func under(path []string, value any) map[string]any {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return value.(map[string]any)
}
