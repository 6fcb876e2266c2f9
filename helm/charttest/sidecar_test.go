package charttest

import (
	"path/filepath"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

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
func TestTheComponentIsWhatTheChartPutsBeside(t *testing.T) {
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
