package charttest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// checked runs weir check on what Helm would print of a release; warnings are errors.
func checked(t *testing.T, r *Rendered) (string, int) {
	t.Helper()
	return checkedBy(t, r, "--strict")
}

func checkedBy(t *testing.T, r *Rendered, flags ...string) (string, int) {
	t.Helper()
	var stream strings.Builder
	for _, o := range r.Objects {
		stream.WriteString("---\n" + o.Text + "\n")
	}
	return checkedText(stream.String(), flags...)
}

func checkedText(text string, flags ...string) (string, int) {
	check := exec.Command(weirBinary, append([]string{"check", "-"}, flags...)...)
	check.Stdin = strings.NewReader(text)
	out, _ := check.CombinedOutput() // its code says it
	return string(out), check.ProcessState.ExitCode()
}

func TestARenderedChartIsChecked(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values string
		code   int
		want   []string
	}{
		{"{}", 0, []string{"OK: 1 domain"}},
		{"monitoring: {dashboards: {enabled: true}}", 0, []string{"left out: ConfigMap weir-dashboards (", "no pod that runs weir mounts it"}},
		{"redis: {type: ring, addresses: ['a:6379', 'b:6379']}", 0, []string{"left out: ConfigMap weir-redis (", "nothing in it names a domain"}},
		{"descriptors: {shop.yaml: 'domain: shop\n\n  descriptors: [{key: user, rate_limit: {unti: minute}}]'}", 1,
			[]string{"(weir-descriptors/shop.yaml): domain shop, user: unknown key \"unti\""}},
	} {
		out, code := checked(t, render(t, "weir", valuesOf(t, tc.values)))
		for _, want := range tc.want {
			if code != tc.code || !strings.Contains(out, want) {
				t.Errorf("with %s it ends with %d and prints %s; want %d and %q", tc.values, code, out, tc.code, want)
			}
		}
	}
	// The runbook asks a cluster for the ConfigMaps of the server: Grafana's are in the release too, and name domains.
	r := *render(t, "weir", valuesOf(t, "monitoring: {dashboards: {enabled: true}, dataSource: {enabled: true}}"))
	r.Objects = slices.DeleteFunc(slices.Clone(r.Objects), func(o Object) bool {
		return o.Kind() != "ConfigMap" || o.At("metadata", "labels", "app.kubernetes.io/component") != "server"
	})
	if out, code := checked(t, &r); code != 0 || !strings.Contains(out, "OK: 1 domain, 7 rules") {
		t.Errorf("exit code %d: %s; want the example, and nothing of Grafana's", code, out)
	}
}
