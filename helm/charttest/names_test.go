package charttest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Releases may be called as people like: also two of one name in two namespaces, which may share a gateway and a
// Prometheus.
func TestNamesFitAndReleasesDoNotCollide(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long-release-name-", 3)[:52]
	releases := []string{"one/weir", "two/weir"}
	for _, release := range []string{"weir", "a", "limits", "a.b", "a-b", "weir.a.b", "weir.a-b", long + "a", long + "b",
		"limits-weir"} {
		releases = append(releases, "limits/"+release)
	}
	kinds := make(map[string]bool)
	kindOf := func(o Object) string { return fmt.Sprint(o.Kind(), " of the ", componentOf(o)) }
	for _, name := range []string{"everything", "istio", "ha", "volume", "cluster-tls"} {
		seen := make(map[string]string) // what it is → release
		for _, of := range releases {
			namespace, release, _ := strings.Cut(of, "/")
			values := caseValues(t, name)
			delete(values, "extraObjects") // one of them names no namespace
			delete(values, "fullnameOverride")
			if release == "limits-weir" {
				delete(values, "serviceAccount") // named by the values, so both releases would have it
			}
			for _, o := range render(t, of, values).Objects {
				wantFits(t, o, namespace, of)
				kinds[kindOf(o)] = true
				for _, thing := range thingsOf(o) {
					if other := seen[thing]; other != "" && o.Name() != "limits-account" {
						t.Errorf("with ci/%s-values.yaml %s belongs to the releases %s and %s", name, thing, of, other)
					}
					seen[thing] = of
				}
			}
			if release == "limits" { // limits and limits-weir are both named limits-weir, as with any chart
				maps.DeleteFunc(seen, func(_, other string) bool { return other == of })
			}
		}
	}
	for _, name := range caseNames(t) {
		for _, o := range render(t, "weir", caseValues(t, name)).Objects {
			if componentOf(o) != nil && !kinds[kindOf(o)] { // extraObjects have none
				t.Errorf("ci/%s-values.yaml gives %s, a %s: take it among those above", name, o, kindOf(o))
			}
		}
	}
}

// wantFits wants an object of a release to have a name that Kubernetes takes, and that tells its namespace in another.
func wantFits(t *testing.T, o Object, namespace, release string) {
	t.Helper()
	longest := map[string]int{"CronJob": 52}[o.Kind()]
	if longest == 0 {
		longest = validation.DNS1035LabelMaxLength
	}
	own, elsewhere := strings.CutSuffix(o.Name(), "."+namespace)
	if elsewhere != (o.Namespace() != namespace && o.Namespace() != "") {
		t.Errorf("%s of the release %s must end with its namespace, and only in another", o, release)
	}
	if wrong := validation.IsDNS1035Label(own); len(wrong) > 0 || len(own) > longest {
		t.Errorf("%s of the release %s has a name of %d characters: %v", o, release, len(o.Name()), wrong)
	}
}

// thingsOf are an object and what it makes for all of a gateway.
func thingsOf(o Object) []string {
	things := []string{o.String()}
	if patches, _ := o.At("spec", "jsonPatches").([]any); len(patches) > 0 {
		things = append(things, fmt.Sprint("cluster ", reach(patches, "last", "operation", "value", "name")))
	}
	return things
}
