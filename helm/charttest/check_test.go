package charttest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// checked runs weir check on what Helm would print of objects.
func checked(t *testing.T, objects []Object, flags ...string) (string, int) {
	t.Helper()
	var stream strings.Builder
	for _, o := range objects {
		stream.WriteString("---\n" + o.Text + "\n")
	}
	check := exec.Command(weirBinary, append([]string{"check", "-"}, flags...)...)
	check.Stdin = strings.NewReader(stream.String())
	out, _ := check.CombinedOutput() // its code says it
	return string(out), check.ProcessState.ExitCode()
}

func TestARenderedChartIsChecked(t *testing.T) {
	t.Parallel()
	const large = "[{key: user, value: 123456789, rate_limit: {unit: hour, requests_per_unit: 4294967295}}]"
	for _, tc := range []struct {
		values string
		flags  []string
		code   int
		want   []string
	}{
		{"{}", []string{"--strict"}, 0, []string{"OK: 1 domain"}},
		{"monitoring: {dashboards: {enabled: true}}", []string{"--strict"}, 0,
			[]string{"left out: ConfigMap weir-dashboards (", "no pod that serves limits mounts it"}},
		{"redis: {type: ring, addresses: ['a:6379', 'b:6379']}", []string{"--strict"}, 0,
			[]string{"left out: ConfigMap weir-redis (", "nothing in it names a domain"}},
		{"descriptors: {shop.yaml: 'domain: shop\n\n  descriptors: [{key: user, rate_limit: {unti: minute}}]'}", nil, 1,
			[]string{"(weir-descriptors/shop.yaml): domain shop, user: unknown key \"unti\""}},
		// A number comes to weir as it was written, however large.
		{"descriptors: {shop.yaml: {domain: shop, descriptors: " + large + "}}", []string{"--explain", "user=123456789"}, 0,
			[]string{"4294967295/hour"}},
	} {
		out, code := checked(t, render(t, "weir", valuesOf(t, tc.values)).Objects, tc.flags...)
		for _, want := range tc.want {
			if code != tc.code || !strings.Contains(out, want) {
				t.Errorf("with %s it ends with %d and prints %s; want %d and %q", tc.values, code, out, tc.code, want)
			}
		}
	}
	// The runbook asks a cluster for the ConfigMaps of the server: Grafana's are in the release too, and name domains.
	r := render(t, "weir", valuesOf(t, "monitoring: {dashboards: {enabled: true}, dataSource: {enabled: true}}"))
	servers := slices.DeleteFunc(ofKind(r.Objects, "ConfigMap"), func(o Object) bool {
		return componentOf(o) != "server"
	})
	if out, code := checked(t, servers, "--strict"); code != 0 || !strings.Contains(out, "OK: 1 domain, 7 rules") {
		t.Errorf("exit code %d: %s; want the example, and nothing of Grafana's", code, out)
	}
}

func TestRenderedDescriptorsAreRight(t *testing.T) {
	t.Parallel()
	forEachCase(t, func(t *testing.T, r *Rendered) {
		for _, o := range ofKind(r.Objects, "ConfigMap") {
			if !strings.HasSuffix(o.Name(), "-descriptors") {
				continue
			}
			if out, code := checked(t, []Object{o}, "--strict"); code != 0 {
				t.Errorf("%s: weir check says: %s", o, out)
			}
		}
	})
}

// The Job that runs before an upgrade reads what the release would give weir, and tells the line at fault.
func TestAFaultyFileEndsAnUpgradeBeforeItBegins(t *testing.T) {
	t.Parallel()
	const wrong = "descriptors: {shop.yaml: 'domain: shop\n\ndescriptors: [{key: user, rate_limit: {unti: minute}}]'}\n"
	for _, tc := range []struct {
		values, want string
		code         int
	}{
		{"", "OK: 1 domain", 0},
		{wrong, "shop.yaml:2: domain shop, user: unknown key \"unti\"", 1},
		{"program: ratelimit\nredis: {addresses: ['redis:6379']}\n" + wrong, "unti", 1},
	} {
		objects := render(t, "weir", valuesOf(t, "check: {enabled: true}\n"+tc.values)).Objects
		out, code := runPod(t, objects, ofKind(objects, "Job")[0], strings.NewReplacer())
		if code != tc.code || !strings.Contains(out, tc.want) {
			t.Errorf("with %q it ends with %d and prints %s; want %d and %q", tc.values, code, out, tc.code, tc.want)
		}
	}
}
