package charttest

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// Where things are, seen from this package.
var (
	root     = filepath.Join("..", "..")
	chartDir = filepath.Join(root, "helm", "weir")
)

// weirChart is the chart. Rendering changes nothing of it.
var weirChart = sync.OnceValues(func() (*chart.Chart, error) { return loader.Load(chartDir) })

// renders are the releases that were rendered, which many tests look at and none changes.
var renders sync.Map

// render renders the chart with values as a release of this name, which must work.
func render(t *testing.T, name string, values map[string]any) *Rendered {
	t.Helper()
	key := name + string(toJSON(t, values))
	if r, done := renders.Load(key); done {
		return r.(*Rendered)
	}
	r, err := tryRender(t, name, values)
	if err != nil {
		t.Fatalf("rendering release %s: %v", name, err)
	}
	renders.Store(key, r)
	return r
}

func tryRender(t *testing.T, name string, values map[string]any) (*Rendered, error) {
	t.Helper()
	return renderIn(t, "limits", name, values)
}

func renderIn(t *testing.T, namespace, name string, values map[string]any) (*Rendered, error) {
	t.Helper()
	c, err := weirChart()
	if err != nil {
		t.Fatal(err)
	}
	return Render(c, namespace, name, values)
}

// caseNames are the values files in helm/weir/ci, without their ending.
func caseNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(chartDir, "ci", "*-values.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("found %d values files in helm/weir/ci, %v: these tests look in the wrong place", len(files), err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), "-values.yaml")
	}
	return files
}

// valuesOf reads values as they stand in a file.
func valuesOf(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := loader.LoadValues(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func caseValues(t *testing.T, name string) map[string]any {
	t.Helper()
	return valuesOf(t, readText(t, filepath.Join(chartDir, "ci", name+"-values.yaml")))
}

// forEachCase runs a test on what each values file renders to.
func forEachCase(t *testing.T, test func(t *testing.T, r *Rendered)) {
	t.Helper()
	for _, name := range caseNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, render(t, "weir", caseValues(t, name)))
		})
	}
}

// ofKind are those of some objects that are of these kinds.
func ofKind(objects []Object, kinds ...string) (found []Object) {
	for _, o := range objects {
		if slices.Contains(kinds, o.Kind()) {
			found = append(found, o)
		}
	}
	return found
}
