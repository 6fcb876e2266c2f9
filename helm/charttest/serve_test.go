package charttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// startRedis runs a Redis with the password "secret".
func startRedis(t *testing.T, options ...redistest.Option) *redistest.Server {
	t.Helper()
	return redistest.Single(t, append(options, redistest.WithPassword("secret"))...)
}

// inRedis are values of a weir that counts there, and waits for it on a busy machine.
func inRedis(addr string) map[string]any {
	return map[string]any{"redis": map[string]any{"addresses": []any{addr}, "timeout": "1m",
		"auth": map[string]any{"existingSecret": "redis-credentials"}}}
}

// inOneMinute plays what a limit a minute makes of some requests, and plays again if the minute was over meanwhile.
func inOneMinute(t *testing.T, play func(user string) error) {
	t.Helper()
	for i := range 3 {
		minute := time.Now().Unix() / 60
		err := play(fmt.Sprint("user", i)) // another user has a minute's limit left
		if err == nil {
			return
		}
		if minute == time.Now().Unix()/60 {
			t.Fatal(err)
		}
		t.Logf("the minute was over: %v", err)
	}
	t.Fatal("starved: in three tries the requests never fell in one minute")
}

// The pods of helm test do what they say.
func TestTheTestsOfAReleasePass(t *testing.T) {
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
func TestTheJobDownsamplesAndEnds(t *testing.T) {
	t.Parallel()
	r := render(t, "weir", inRedis(startRedis(t).Addr))
	jobs := ofKind(r.Objects, "CronJob")
	if len(jobs) != 1 {
		t.Fatalf("with Redis there are %d CronJobs, want one: its history would never be downsampled", len(jobs))
	}
	out, code := runPod(t, r.Objects, jobs[0], strings.NewReplacer())
	if code != 0 || !strings.Contains(out, "256 of 256 partitions") {
		t.Errorf("the job ends with %d\n%s", code, out)
	}
}
