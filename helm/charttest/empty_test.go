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
	defaults, err := ReadValues(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	paths := keysOf(defaults, nil)
	if len(paths) < 150 {
		t.Fatalf("values.yaml has only %d keys: this test looks in the wrong place", len(paths))
	}
	for _, path := range paths {
		r, err := tryRender(t, "weir", loader.MergeMaps(map[string]any{
			"redis": map[string]any{"addresses": []any{"redis:6379"}},
		}, empty(path)))
		if err != nil {
			if !strings.Contains(err.Error(), strings.Join(path, ".")+" is empty") {
				t.Errorf("with %s left empty a template stumbles, and does not say over what: %v", strings.Join(path, "."), err)
			}
			continue
		}
		for _, hole := range holesIn(r) {
			t.Errorf("with %s left empty %s", strings.Join(path, "."), hole)
		}
	}
}

func TestAKeyOfASectionThatIsOffMayBeLeftEmpty(t *testing.T) {
	t.Parallel()
	defaults, err := ReadValues(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	off := 0
	for _, path := range keysOf(defaults, nil) {
		for depth := 1; depth < len(path); depth++ {
			section := path[:depth]
			if _, has := at(defaults, section).(map[string]any)["enabled"]; !has || path[depth] == "enabled" {
				continue
			}
			off++
			redis := map[string]any{"redis": map[string]any{"addresses": []any{"redis:6379"}}, "networkPolicy": map[string]any{"enabled": true}}
			backends := []map[string]any{{}, redis}
			if testing.Short() { // each key with one of them
				backends = backends[off%2 : off%2+1]
			}
			for _, more := range backends {
				values := loader.MergeMaps(empty(append(slices.Clone(section), "enabled")), empty(path))
				at(values, section).(map[string]any)["enabled"] = false
				what := fmt.Sprintf("with %v, with %s off and %s left empty", more, strings.Join(section, "."), strings.Join(path, "."))
				r, err := tryRender(t, "weir", loader.MergeMaps(more, values))
				if err != nil {
					t.Errorf("%s: what is not used is asked for: %v", what, err)
					continue
				}
				for _, hole := range holesIn(r) {
					t.Errorf("%s %s", what, hole)
				}
			}
		}
	}
	if off < 60 {
		t.Errorf("only %d keys stand in sections that can be off: this test looks in the wrong place", off)
	}
}

// An EnvoyFilter without a selector is for all gateways of its namespace. In Helm {} keeps the default.
func TestAGatewaysSelectorMayBeEmpty(t *testing.T) {
	t.Parallel()
	for what, selector := range map[string]any{"null": nil, "its only label removed": map[string]any{"istio": nil}} {
		r, err := tryRender(t, "weir", map[string]any{
			"istio": map[string]any{"gateway": map[string]any{"enabled": true, "selector": selector}}})
		if err != nil {
			t.Errorf("istio.gateway.selector: %s is refused: %v", what, err)
			continue
		}
		filter := slices.IndexFunc(r.Objects, func(o Object) bool { return o.Kind() == "EnvoyFilter" })
		if filter < 0 || strings.Contains(r.Objects[filter].Text, "workloadSelector") {
			t.Errorf("istio.gateway.selector: %s must make an EnvoyFilter for all gateways, one without a selector", what)
		}
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

// at is what stands in a tree at a path.
func at(tree any, path []string) any {
	for _, key := range path {
		tree = tree.(map[string]any)[key]
	}
	return tree
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
