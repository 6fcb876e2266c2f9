package charttest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNamesFitAndReleasesDoNotCollide(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long-release-name-", 3)[:52]
	cases := caseNames(t)
	if testing.Short() { // which have objects of every kind, and in other namespaces
		cases = []string{"everything", "istio"}
	}
	for _, name := range cases {
		values := caseValues(t, name)
		delete(values, "fullnameOverride")
		seen := make(map[string]string) // object → release
		for _, release := range []string{"weir", "a", "limits", "a.b", "a-b", "weir.a.b", "weir.a-b", long + "a", long + "b", "limits-weir"} {
			if release == "limits-weir" {
				delete(values, "serviceAccount") // named by the values, so both releases would have it
			}
			for _, o := range render(t, release, values).Objects {
				longest := map[string]int{"CronJob": 52}[o.Kind()]
				if longest == 0 {
					longest = validation.DNS1035LabelMaxLength
				}
				own, elsewhere := strings.CutSuffix(o.Name(), ".limits")
				if elsewhere != (o.Namespace() != "limits" && o.Namespace() != "") {
					t.Errorf("%s of a release in limits must end with that namespace, and only in another", o)
				}
				if wrong := validation.IsDNS1035Label(own); len(wrong) > 0 || len(own) > longest {
					t.Errorf("%s of release %s has a name of %d characters: %v", o, release, len(o.Name()), wrong)
				}
				if other := seen[o.String()]; other != "" && o.Name() != "limits-account" {
					t.Errorf("with %s, %s belongs to the releases %s and %s", name, o, other, release)
				}
				seen[o.String()] = release
			}
			if release == "limits" { // limits and limits-weir are both named limits-weir, as with any chart
				maps.DeleteFunc(seen, func(_, of string) bool { return of == "limits" })
			}
		}
	}
}

// Two teams that both call their release weir may share a gateway and a Prometheus.
func TestReleasesOfOneNameInTwoNamespacesDoNotCollide(t *testing.T) {
	t.Parallel()
	for _, name := range caseNames(t) {
		seen := make(map[string]bool)
		for _, namespace := range []string{"one", "two"} {
			values := caseValues(t, name)
			delete(values, "extraObjects") // one of them names no namespace
			r, err := renderIn(t, namespace, "weir", values)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range r.Objects {
				things := []string{o.String()}
				if o.Kind() == "EnvoyPatchPolicy" {
					patches := o.At("spec", "jsonPatches").([]any)
					cluster := Object{Tree: patches[len(patches)-1].(map[string]any)}
					things = append(things, fmt.Sprint("cluster ", cluster.At("operation", "value", "name")))
				}
				for _, thing := range things {
					if seen[thing] {
						t.Errorf("with ci/%s-values.yaml %s belongs to two releases", name, thing)
					}
					seen[thing] = true
				}
			}
		}
	}
}
