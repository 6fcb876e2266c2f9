package charttest

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

var k8sDir = filepath.Join(root, "k8s")

// inK8s are the files of k8s that match a pattern, in its folders and in theirs, of which there are so many at least.
func inK8s(t *testing.T, pattern string, least int) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(k8sDir, "*", pattern))
	deeper, _ := filepath.Glob(filepath.Join(k8sDir, "*", "*", pattern)) // if one is right, so is the other
	if files = append(files, deeper...); err != nil || len(files) < least {
		t.Fatalf("found %d files %s in k8s, %v: these tests look in the wrong place", len(files), pattern, err)
	}
	return files
}

// kustomizations are the folders that kubectl apply -k takes.
func kustomizations(t *testing.T) (dirs []string) {
	t.Helper()
	for _, file := range inK8s(t, "kustomization.yaml", 9) {
		if objects := readFile(t, file); objects[0].Kind() != "Component" {
			dirs = append(dirs, filepath.Dir(file))
		}
	}
	return dirs
}

func readFile(t *testing.T, name string) []Object {
	t.Helper()
	return objectsIn(t, name, readText(t, name))
}

// build is what kubectl kustomize makes of a folder.
func build(t *testing.T, dir string) []Object {
	t.Helper()
	out, err := exec.Command(process.Tool(t, "kubectl"), "kustomize", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl kustomize %s: %v\n%s", dir, err, out)
	}
	return objectsIn(t, dir, string(out))
}

// byName are objects by their names, without what tells a Helm release from a kustomization.
func byName(objects []Object) map[string]any {
	plain := make(map[string]any)
	for _, o := range objects {
		annotations, _ := o.At("metadata", "annotations").(map[string]any)
		if annotations["helm.sh/hook"] != nil {
			continue
		}
		meta, _ := o.At("metadata").(map[string]any) // an object without any has no name and is no object
		tree, meta := maps.Clone(o.Tree), maps.Clone(meta)
		delete(meta, "labels")
		delete(meta, "namespace")
		tree["metadata"] = meta
		plain[o.Kind()+"/"+o.Name()] = tree
	}
	return plain
}

// unordered takes lists for the same whose order means nothing: those of variables, volumes and mounts.
var unordered = cmp.FilterPath(func(path cmp.Path) bool {
	at, isKey := path.Index(-2).(cmp.MapIndex)
	return isKey && slices.Contains([]string{"env", "volumes", "volumeMounts"}, at.Key().String())
}, cmpopts.SortSlices(func(a, b any) bool { return fmt.Sprint(a) < fmt.Sprint(b) }))

// wantSame compares what two ways of installing give.
func wantSame(t *testing.T, kustomized, charted []Object) {
	t.Helper()
	if diff := cmp.Diff(byName(kustomized), byName(charted), unordered); diff != "" {
		t.Errorf("what the kustomization makes (-) is not what the chart makes (+):\n%s", diff)
	}
}

// inWeir is the release with whose names the kustomizations are written.
const inWeir = "weir/weir"

// Kustomize makes up no token, so the base has none; with the component it has that of a Secret.
func TestKustomizationsMatchTheChart(t *testing.T) {
	t.Parallel()
	values := map[string]string{filepath.Join(k8sDir, "base"): "admin: {token: {create: false}}",
		filepath.Join("testdata", "admin-token"): "admin: {token: {existingSecret: weir-admin-token}}"}
	for _, overlay := range []string{"ha-sentinel", "cluster", "ring", "mtls", "memcached"} {
		dir := filepath.Join(k8sDir, "overlays", overlay)
		values[dir] = readText(t, filepath.Join(dir, "values.yaml"))
	}
	for dir, values := range values {
		t.Run(filepath.Base(dir), func(t *testing.T) { wantSame(t, build(t, dir), render(t, inWeir, valuesOf(t, values)).Objects) })
	}
}

// renderBeside renders the chart of testdata/shop, whose workload has a weir beside its Envoy.
func renderBeside(t *testing.T, values map[string]any) *Rendered {
	t.Helper()
	shop, err := loader.Load(filepath.Join("testdata", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	weir, err := loader.Load(chartDir) // which becomes a part of it
	if err != nil {
		t.Fatal(err)
	}
	shop.AddDependency(weir)
	r, err := renderChart(t, shop, "shop/shop", values)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Both ways of putting weir beside an Envoy give the same pod.
func TestComponentMatchesTheChartsSidecar(t *testing.T) {
	t.Parallel()
	pod := func(objects []Object) []Object {
		spec := ofKind(objects, "Deployment")[0].At("spec", "template", "spec")
		return []Object{{Tree: map[string]any{"kind": "Pod", "spec": spec}}}
	}
	charted := renderBeside(t, valuesOf(t, "weir: {fullnameOverride: weir, admin: {token: {create: false}}}")).Objects
	if n := len(ofKind(charted, "Deployment", "Service")); n != 1 {
		t.Errorf("%d Deployments and Services are rendered; want only the workload's own", n)
	}
	wantSame(t, pod(build(t, filepath.Join("testdata", "shop-kustomized"))), pod(charted))
}
