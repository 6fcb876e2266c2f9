//go:build apiserver

package apiserver

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/helm/charttest"
)

// The repository and its chart, seen from this package.
var (
	root     = filepath.Join("..", "..", "..")
	chartDir = filepath.Join(root, "helm", "weir")
)

func TestARealAPITakesChartAndKustomizations(t *testing.T) {
	c := startCluster(t)
	c.define(t)
	c.namespaces(t, "istio-system", "monitoring", "shop", "edge")
	// What ci/everything names.
	c.apply(t, "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: gvisor}\nhandler: runsc\n", "-f", "-")
	files, err := filepath.Glob(filepath.Join(chartDir, "ci", "*-values.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatalf("found %d values files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run("helm install and upgrade to "+name, func(t *testing.T) { c.install(t, name, file) })
	}
	for _, dir := range []string{"base", "overlays/demo", "overlays/ha-sentinel", "overlays/cluster", "overlays/ring",
		"overlays/mtls", "istio", "envoy-gateway"} {
		t.Run("apply -k k8s/"+dir, func(t *testing.T) {
			c.in(t, "k-"+filepath.Base(dir))
			c.apply(t, "", "-k", filepath.Join(root, "k8s", filepath.FromSlash(dir)))
		})
	}
}

// install installs the defaults, upgrades to the values of a case, looks, and uninstalls.
func (c cluster) install(t *testing.T, namespace, file string) {
	t.Helper()
	values, err := charttest.ReadValues(file)
	if err != nil {
		t.Fatal(err)
	}
	token := func() string {
		return c.run(t, "", "kubectl", "get", "secret", "weir-admin-token", "-o", "jsonpath={.data.token}")
	}
	c.in(t, namespace)
	c.run(t, "", "helm", "install", "weir", chartDir)
	c.wantInstalled(t, namespace, nil)
	made := token()
	c.run(t, "", "helm", "upgrade", "weir", chartDir, "--set", "replicas=1")
	if kept := token(); made == "" || kept != made {
		t.Errorf("helm install makes the token %q, and an upgrade %q", made, kept)
	}
	c.run(t, "", "helm", "lint", chartDir, "--strict", "--values", file)
	// Nobody runs the Job that checks files here. Below, hooks are shown to the API.
	c.run(t, "", "helm", "upgrade", "weir", chartDir, "--no-hooks", "--values", file)
	c.wantInstalled(t, namespace, values)
	c.run(t, "", "helm", "uninstall", "weir")
}

// wantInstalled wants what a release renders to in these tests to be what is in the cluster, with all its fields.
func (c cluster) wantInstalled(t *testing.T, namespace string, values map[string]any) {
	t.Helper()
	chart, err := charttest.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := charttest.Render(chart, charttest.Release{Name: "weir", Namespace: namespace, Values: values})
	if err != nil {
		t.Fatal(err)
	}
	var objects, hooks strings.Builder
	for _, o := range r.Objects {
		annotations, _ := o.At("metadata", "annotations").(map[string]any) // nil has no hook
		switch {
		case annotations["helm.sh/hook"] != nil:
			hooks.WriteString("---\n" + o.Text)
		case o.Kind() != "Secret" || !strings.HasSuffix(o.Name(), "-admin-token"): // which is random
			objects.WriteString("---\n" + o.Text)
		}
	}
	if hooks.Len() > 0 {
		c.apply(t, hooks.String(), "--dry-run=server", "-f", "-")
	}
	_, err = c.try(t, objects.String(), "kubectl", "diff", "--server-side", "--force-conflicts", "-f", "-")
	if err != nil {
		t.Errorf("helm has installed something else: %v", err)
	}
}
