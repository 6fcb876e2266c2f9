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
	check := exec.Command(weirBinary, append([]string{"check", "-"}, flags...)...)
	check.Stdin = strings.NewReader(stream.String())
	out, _ := check.CombinedOutput() // its code says it
	return string(out), check.ProcessState.ExitCode()
}

func TestARenderedChartIsChecked(t *testing.T) {
	t.Parallel()
	out, code := checked(t, render(t, "weir", nil))
	if code != 0 || !strings.Contains(out, "OK: 1 domain") || strings.Contains(out, "left out") {
		t.Errorf("exit code %d: %s; want the chart's example, right", code, out)
	}
	ring := map[string]any{"redis": map[string]any{"type": "ring", "addresses": []any{"a:6379", "b:6379"}}}
	out, code = checked(t, render(t, "weir", ring))
	if code != 0 || !strings.Contains(out, "left out: ConfigMap weir-redis (") || !strings.Contains(out, "Deployment weir does not read it") {
		t.Errorf("exit code %d: %s; want the ring's URL to be left out, and to be told", code, out)
	}
	// The runbook asks a cluster for the ConfigMaps of the server: Grafana's are in the release too, and name domains.
	r := *render(t, "weir", valuesOf(t, "monitoring: {dashboards: {enabled: true}, dataSource: {enabled: true}}"))
	r.Objects = slices.DeleteFunc(slices.Clone(r.Objects), func(o Object) bool {
		return o.Kind() != "ConfigMap" || o.At("metadata", "labels", "app.kubernetes.io/component") != "server"
	})
	out, code = checked(t, &r)
	if code != 0 || !strings.Contains(out, "OK: 1 domain, 7 rules") {
		t.Errorf("exit code %d: %s; want the example, and nothing of Grafana's", code, out)
	}
	wrong := map[string]any{"descriptors": map[string]any{"shop.yaml": "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unti: minute}}\n"}}
	out, code = checked(t, render(t, "weir", wrong))
	if code != 1 || !strings.Contains(out, "(weir-descriptors/shop.yaml): domain shop, user: unknown key \"unti\"") {
		t.Errorf("exit code %d: %s; want the entry's fault", code, out)
	}
}
