package charttest

import (
	"path/filepath"
	"regexp"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// loadShop loads the chart of testdata/shop, with weir's as its dependency.
func loadShop(t *testing.T) *chart.Chart {
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
	return shop
}

// renderBeside renders the chart of testdata/shop, whose workload has a weir beside its Envoy.
func renderBeside(t *testing.T, values map[string]any) []Object {
	t.Helper()
	r, err := Render(loadShop(t), Release{Name: "shop", Namespace: "shop", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	return r.Objects
}

func TestAWeirBesideAnEnvoyIsRestrictedAndWired(t *testing.T) {
	t.Parallel()
	objects := renderBeside(t, nil)
	if n := len(ofKind(objects, "Deployment", "Service")); n != 1 {
		t.Errorf("%d Deployments and Services are rendered; want only the workload's own", n)
	}
	for _, o := range objects {
		wantRestricted(t, o)
		if pod := podOf(decode(t, o)); pod != nil {
			wantMounts(t, o, &pod.Spec)
		}
	}
}

// What the notes show puts weir into a pod, at whatever depth it is pasted, for either kind of container.
func TestWhatTheNotesShowPutsWeirBesideAnEnvoy(t *testing.T) {
	t.Parallel()
	for _, native := range []bool{true, false} {
		values := map[string]any{"mode": "sidecar", "fullnameOverride": "weir", "drain": map[string]any{"delaySeconds": 40},
			"sidecar": map[string]any{"native": native}}
		notes := render(t, "weir", values).Notes
		snippet := regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindString(notes)
		for _, pasted := range []string{snippet, regexp.MustCompile(`(?m)^    `).ReplaceAllString(snippet, "")} {
			shop := loadShop(t)
			depth := regexp.MustCompile(`^ *`).FindString(pasted)
			for _, f := range shop.Templates {
				f.Data = []byte(depth + "apiVersion: apps/v1\n" + depth + "kind: Deployment\n" + depth + "metadata: {name: cart}\n" + pasted)
			}
			r, err := Render(shop, Release{Name: "shop", Namespace: "shop", Values: map[string]any{"weir": values}})
			if err != nil {
				t.Fatalf("what the notes show does not render: %v\n%s", err, pasted)
			}
			pod := r.pod(t, "server")
			wantMounts(t, r.Objects[0], pod)
			weirs := pod.Containers
			if native {
				weirs = pod.InitContainers
			}
			if len(weirs) != 1 || (weirs[0].RestartPolicy != nil) != native {
				t.Errorf("with native %v the pod has the containers %v, and %v before them", native, pod.Containers, pod.InitContainers)
			}
			if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace != 65 {
				t.Errorf("the pod is killed after %v s, want 65: it drains for 40 and 20", grace)
			}
		}
		if shown := snippets(t, notes); len(shown) != 3 {
			t.Errorf("the notes show %v, want a filter, a cluster and rate_limits", shown)
		}
	}
}

// Both ways of putting weir beside an Envoy give the same pod.
func TestTheComponentIsWhatTheChartPutsBeside(t *testing.T) {
	t.Parallel()
	pod := func(objects []Object) []Object {
		spec := ofKind(objects, "Deployment")[0].At("spec", "template", "spec")
		return []Object{{Tree: map[string]any{"kind": "Pod", "spec": spec}}}
	}
	charted := renderBeside(t, valuesOf(t, "weir: {fullnameOverride: weir, admin: {token: {create: false}}}"))
	wantSame(t, pod(build(t, filepath.Join("testdata", "shop-kustomized"))), pod(charted))
}
