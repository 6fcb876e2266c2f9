package charttest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// startRedis runs a Redis with the password "secret".
func startRedis(t *testing.T, options ...redistest.Option) *redistest.Server {
	t.Helper()
	return redistest.Single(t, append(options, redistest.WithPassword("secret"))...)
}

func TestHelmTestsPass(t *testing.T) {
	t.Parallel()
	r := render(t, "weir", nil)
	w := startRendered(t, r)
	at := strings.NewReplacer("weir:8081", w.grpc, "weir-admin:6070", strings.TrimPrefix(w.admin, "http://"))
	pods := ofKind(r.Objects, "Pod")
	if len(pods) != 2 {
		t.Errorf("%d pods of helm test are rendered, want 2", len(pods))
	}
	for _, o := range pods {
		if out, code := runPod(t, r.Objects, o, at); code != 0 {
			t.Errorf("%s ends with %d: %s", o, code, out)
		}
	}
}

// The pod of the CronJob does its work, with the environment that it gets.
func TestDownsampleJobRunsAndEnds(t *testing.T) {
	t.Parallel()
	r := render(t, "weir", valuesOf(t, "redis: {addresses: ['"+startRedis(t).Addr+
		"'], timeout: 1m, auth: {existingSecret: redis-credentials}}")) // a minute, as the machine may be busy
	jobs := ofKind(r.Objects, "CronJob")
	if len(jobs) != 1 {
		t.Fatalf("with Redis there are %d CronJobs, want one: its history would never be downsampled", len(jobs))
	}
	out, code := runPod(t, r.Objects, jobs[0], strings.NewReplacer())
	if code != 0 || !strings.Contains(out, "256 of 256 partitions") {
		t.Errorf("the job ends with %d\n%s", code, out)
	}
}

func TestFailurePolicyDecidesWithoutRedis(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ policy, onNodeLoss, want string }{
		{"allow", "remap", "OK OK OK"},
		{"allow", "pin", "OK OK OK"},
		{"deny", "remap", "OVER_LIMIT OVER_LIMIT OVER_LIMIT"},
		{"local", "pin", "OK OK OVER_LIMIT"}, // ten a day, divided by five replicas
		{"error", "remap", "UNKNOWN UNKNOWN UNKNOWN"},
	} {
		t.Run(tc.policy+" "+tc.onNodeLoss, func(t *testing.T) {
			t.Parallel()
			w := startRendered(t, render(t, "weir", valuesOf(t, fmt.Sprintf(`
replicas: 5
redis: {type: ring, addresses: [%q], onFailure: %s, onNodeLoss: %s}
descriptors: {shop.yaml: {domain: shop, descriptors: [{key: user, rate_limit: {requests_per_unit: 10, unit: day}}]}}`,
				process.Addr(t), tc.policy, tc.onNodeLoss))))
			client := weirtest.Dial(t, w.grpc)
			var got [3]any
			for i := range got {
				answer, _ := client.Ask("shop", weirtest.Describe("user", "ann")) // an error is UNKNOWN
				got[i] = answer.GetOverallCode()
			}
			if is := fmt.Sprint(got[:]...); is != tc.want {
				t.Errorf("ann gets %s, want %s", is, tc.want)
			}
		})
	}
}

// What Helm prints can be checked as it is: what is Grafana's, or a ring's, is left out.
func TestCheckReadsTheRenderedChart(t *testing.T) {
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
func TestFaultyFileStopsAnUpgrade(t *testing.T) {
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
