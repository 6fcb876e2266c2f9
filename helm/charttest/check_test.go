package charttest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// What Helm prints can be checked as it is: what is Grafana's, or a ring's, is left out.
func TestARenderedChartIsChecked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ha", "ring", "volume", "ratelimit-files"} {
		var stream strings.Builder
		for _, o := range render(t, "weir", caseValues(t, name)).Objects {
			stream.WriteString("---\n" + o.Text + "\n")
		}
		check := exec.Command(process.Weir(t), "check", "-", "--strict")
		check.Stdin = strings.NewReader(stream.String())
		if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), "OK: 1 domain") {
			t.Errorf("with ci/%s-values.yaml weir check says: %s (%v)", name, out, err)
		}
	}
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
