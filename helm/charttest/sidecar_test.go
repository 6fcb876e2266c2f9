package charttest

import (
	"path/filepath"
	"reflect"
	"testing"
)

// renderBeside renders the chart of testdata/shop, whose workload has a weir beside its Envoy.
func renderBeside(t *testing.T, values map[string]any) []Object {
	t.Helper()
	shop, err := Load(filepath.Join("testdata", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	weir, err := Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	shop.AddDependency(weir)
	r, err := Render(shop, Release{Name: "shop", Namespace: "shop", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	return r.Objects
}

func TestAWeirBesideAnEnvoyIsRestrictedAndWired(t *testing.T) {
	deployments := 0
	for _, o := range renderBeside(t, nil) {
		wantRestricted(t, o)
		if o.Kind() == "Deployment" || o.Kind() == "Service" {
			deployments++
		}
		if pod := podOf(decode(t, o)); pod != nil {
			wantMounts(t, o, &pod.Spec)
		}
	}
	if deployments != 1 {
		t.Errorf("%d Deployments and Services are rendered; want only the workload's own", deployments)
	}
}

// Both ways of putting weir beside an Envoy give the same pod.
func TestTheComponentIsWhatTheChartPutsBeside(t *testing.T) {
	spec := func(objects []Object) any {
		for _, o := range objects {
			if o.Kind() == "Deployment" {
				return sorted(o.At("spec", "template", "spec"))
			}
		}
		t.Fatal("there is no Deployment")
		return nil
	}
	charted := spec(renderBeside(t, map[string]any{"weir": map[string]any{"fullnameOverride": "weir"}}))
	kustomized := spec(build(t, filepath.Join("testdata", "shop-kustomized")))
	if !reflect.DeepEqual(kustomized, charted) {
		t.Errorf("the pods are not the same:\nkustomized %v\ncharted    %v", kustomized, charted)
	}
}
