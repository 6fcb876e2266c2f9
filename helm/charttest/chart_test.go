// Package charttest renders the chart in helm/weir as Helm does, and reads what comes out. It holds the chart, the
// kustomizations in k8s and their documents to what they promise, without a cluster.
package charttest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// Where things are, seen from this package.
var (
	root     = filepath.Join("..", "..")
	chartDir = filepath.Join(root, "helm", "weir")
)

// weirChart is the chart. Rendering changes nothing of it.
var weirChart = sync.OnceValues(func() (*chart.Chart, error) { return loader.Load(chartDir) })

// Rendered is what Helm makes of a release.
type Rendered struct {
	Objects []Object // in the order of the templates' names; test hooks are among them
	Notes   string
}

// renders are the releases that were rendered, which many tests look at and none changes.
var renders sync.Map

// render renders the chart with values as a release, which must work.
func render(t *testing.T, release string, values map[string]any) *Rendered {
	t.Helper()
	key := release + string(toJSON(t, values))
	if r, done := renders.Load(key); done {
		return r.(*Rendered)
	}
	r, err := tryRender(t, release, values)
	if err != nil {
		t.Fatalf("rendering release %s: %v", release, err)
	}
	renders.Store(key, r)
	return r
}

func tryRender(t *testing.T, release string, values map[string]any, there ...Object) (*Rendered, error) {
	t.Helper()
	c, err := weirChart()
	if err != nil {
		t.Fatal(err)
	}
	return renderChart(t, c, release, values, there...)
}

// renderChart renders a chart as a release, NAME in the namespace limits or NAMESPACE/NAME. If objects of it are there in
// the cluster, it is an upgrade. Its error is what the schema or the templates say to a user.
func renderChart(t *testing.T, c *chart.Chart, release string, values map[string]any, there ...Object) (*Rendered, error) {
	t.Helper()
	namespace, name, named := strings.Cut(release, "/")
	if !named {
		namespace, name = "limits", release
	}
	options := common.ReleaseOptions{Name: name, Namespace: namespace, IsInstall: len(there) == 0, IsUpgrade: len(there) > 0}
	all, err := util.ToRenderValues(c, values, options, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.RenderWithClientProvider(c, all, installed(there))
	if err != nil {
		return nil, err
	}
	var out Rendered
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == "NOTES.txt" {
			out.Notes = files[name]
		} else {
			out.Objects = append(out.Objects, objectsIn(t, name, files[name])...)
		}
	}
	return &out, nil
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

// forEachCase runs a test on what each values file renders to, and on a workload with weir beside it.
func forEachCase(t *testing.T, test func(t *testing.T, r *Rendered)) {
	t.Helper()
	for _, name := range caseNames(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, render(t, "weir", caseValues(t, name)))
		})
	}
	t.Run("beside", func(t *testing.T) {
		t.Parallel()
		test(t, renderBeside(t, nil))
	})
}

// Object is one object of Kubernetes: its YAML, and the same as maps and lists.
type Object struct {
	Text string
	Tree map[string]any
}

// objectsIn reads the YAML documents of a text; empty ones are left out.
func objectsIn(t *testing.T, where, text string) (objects []Object) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var node yaml.Node
		tree := map[string]any{}
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return objects
		}
		document, unwritten := yaml.Marshal(&node)
		if err := errors.Join(err, node.Decode(&tree), unwritten); err != nil {
			t.Fatalf("%s has YAML that is none: %v\n%s", where, err, text)
		}
		if len(tree) > 0 {
			objects = append(objects, Object{Text: string(document), Tree: tree})
		}
	}
}

// At is what stands at a path of keys, nil if nothing does.
func (o Object) At(path ...string) any { return reach(o.Tree, path...) }

// reach is what stands at a path of keys: of a list a step is the name of an element, 0 its first, or last.
func reach(at any, path ...string) any {
	for _, step := range path {
		in := at
		at = nil
		switch in := in.(type) {
		case map[string]any:
			at = in[step]
		case []any:
			for i, of := range in {
				if named, _ := of.(map[string]any); named["name"] == step || step == "0" && i == 0 || step == "last" {
					at = of
				}
			}
		}
	}
	return at
}

// String is kind/namespace/name.
func (o Object) String() string { return fmt.Sprintf("%s/%s/%s", o.Kind(), o.Namespace(), o.Name()) }

// Kind is the object's kind.
func (o Object) Kind() string { return text(o.At("kind")) }

// Name is the object's name.
func (o Object) Name() string { return text(o.At("metadata", "name")) }

// Namespace is the object's namespace, empty if it names none.
func (o Object) Namespace() string { return text(o.At("metadata", "namespace")) }

func text(value any) string {
	s, _ := value.(string) // what is no text is missing
	return s
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
