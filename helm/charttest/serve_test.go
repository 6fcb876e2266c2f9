package charttest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// startEnvoy runs Envoy with the bootstrap of k8s/envoy, changed only in where it listens and whom it asks.
func startEnvoy(t *testing.T, weirAt string) (url string) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(upstream.Close)
	config := readText(t, filepath.Join(k8sDir, "envoy", "envoy.yaml"))
	replace := func(old, new string) {
		if strings.Count(config, old) != 1 {
			t.Fatalf("k8s/envoy/envoy.yaml holds %q %d times, want it once", old, strings.Count(config, old))
		}
		config = strings.Replace(config, old, new, 1)
	}
	at := "socket_address: {address: 127.0.0.1, port_value: "
	replace(at+"9901", at+"0")
	replace(at+"10000", at+"0")
	replace(at+"8000", at+strconv.Itoa(upstream.Listener.Addr().(*net.TCPAddr).Port))
	replace("timeout: 0.1s", "timeout: 60s") // a busy machine is no reason to let a request pass
	if filepath.IsAbs(weirAt) {
		replace(at+"8081}", "pipe: {path: "+weirAt+"}")
	} else {
		replace(at+"8081", at+weirAt[strings.LastIndex(weirAt, ":")+1:])
	}
	url = "http://" + weirtest.StartEnvoy(t, []byte(config), 1).Addrs["ingress"] + "/"
	weirtest.Eventually(t, "Envoy lets requests pass", answers(url, 200)) // without x-user nothing is asked
	return url
}

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

// wantTenAMinute sends twelve requests of a user through Envoy: the example allows ten a minute.
func wantTenAMinute(t *testing.T, url string) {
	t.Helper()
	inOneMinute(t, func(user string) error {
		for i := 1; i <= 12; i++ {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			request.Header.Set("x-user", user)
			answer, err := weirtest.Patient.Do(request)
			if err != nil {
				return err
			}
			answer.Body.Close()
			want := 200
			if i > 10 {
				want = 429
			}
			if limit := answer.Header.Get("x-ratelimit-limit"); answer.StatusCode != want || !strings.HasPrefix(limit, "10, ") {
				return fmt.Errorf("request %d of %s: Envoy answers %d with x-ratelimit-limit %q, want %d of ten a minute",
					i, user, answer.StatusCode, limit, want)
			}
		}
		return nil
	})
}

func TestARenderedContainerServesARealEnvoy(t *testing.T) {
	t.Parallel()
	wantTenAMinute(t, startEnvoy(t, startRendered(t, render(t, "weir", inRedis(startRedis(t).Addr))).grpc))
}

func TestASidecarServesARealEnvoyOnItsSocket(t *testing.T) {
	t.Parallel()
	wantTenAMinute(t, startEnvoy(t, startRendered(t, &Rendered{Objects: renderBeside(t, nil)}).grpc))
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
