package charttest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startEnvoy runs Envoy with the bootstrap of k8s/envoy, changed only in where it listens and whom it asks.
func startEnvoy(t *testing.T, weirAt string) (url string) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(upstream.Close)
	text, err := os.ReadFile(filepath.Join(k8sDir, "envoy", "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	admin, ingress := freePort(t), freePort(t)
	config := string(text)
	replace := func(old, new string) {
		if strings.Count(config, old) != 1 {
			t.Fatalf("k8s/envoy/envoy.yaml holds %q %d times, want it once", old, strings.Count(config, old))
		}
		config = strings.Replace(config, old, new, 1)
	}
	at := "socket_address: {address: 127.0.0.1, port_value: "
	replace(at+"9901", at+strconv.Itoa(admin))
	replace(at+"10000", at+strconv.Itoa(ingress))
	replace(at+"8000", at+strconv.Itoa(upstream.Listener.Addr().(*net.TCPAddr).Port))
	replace("timeout: 0.1s", "timeout: 10s") // a busy machine is no reason to let a request pass
	if filepath.IsAbs(weirAt) {
		replace(at+"8081}", "pipe: {path: "+weirAt+"}")
	} else {
		replace(at+"8081", at+weirAt[strings.LastIndex(weirAt, ":")+1:])
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, nil, envoyBinary, "-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning")
	awaitStatus(t, fmt.Sprintf("http://127.0.0.1:%d/ready", admin), 200)
	url = fmt.Sprintf("http://127.0.0.1:%d/", ingress)
	awaitStatus(t, url, 200) // without x-user nothing is asked
	return url
}

// startRedis runs a Redis with the password "secret".
func startRedis(t *testing.T) (address string) {
	t.Helper()
	port := freePort(t)
	startRedisOn(t, port)
	return fmt.Sprint("127.0.0.1:", port)
}

func startRedisOn(t *testing.T, port int, more ...string) *os.Process {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if binary, err = exec.LookPath("valkey-server"); err != nil {
			t.Fatal("no redis-server or valkey-server on PATH: run make tools")
		}
	}
	process := run(t, nil, binary, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--requirepass", "secret",
		"--save", ""}, more...)...)
	deadline := time.Now().Add(20 * time.Second)
	for {
		conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			conn.Close()
			return process
		}
		if time.Now().After(deadline) {
			t.Fatalf("Redis does not start: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// wantTenAMinute sends twelve requests of a user through Envoy: the example allows ten a minute.
func wantTenAMinute(t *testing.T, url, user string) {
	t.Helper()
	for i := 1; i <= 12; i++ {
		status, _, header := body(t, url, http.Header{"X-User": {user}})
		want := 200
		if i > 10 {
			want = 429
		}
		if limit := header.Get("x-ratelimit-limit"); status != want || !strings.HasPrefix(limit, "10, ") {
			t.Errorf("request %d of %s: Envoy answers %d with x-ratelimit-limit %q, want %d of ten a minute",
				i, user, status, limit, want)
		}
	}
}

func TestARenderedContainerServesARealEnvoy(t *testing.T) {
	redis := func(t *testing.T, kind string) map[string]any {
		return map[string]any{"redis": map[string]any{"type": kind, "addresses": []any{startRedis(t)},
			"auth": map[string]any{"existingSecret": "redis-credentials"}}}
	}
	for name, values := range map[string]func(t *testing.T) map[string]any{
		"memory": func(*testing.T) map[string]any { return nil },
		"redis":  func(t *testing.T) map[string]any { return redis(t, "single") },
		"ring":   func(t *testing.T) map[string]any { return redis(t, "ring") },
	} {
		t.Run(name, func(t *testing.T) {
			w := startRendered(t, render(t, "weir", values(t)))
			wantTenAMinute(t, startEnvoy(t, w.grpc), "ann")
			// Changed limits are in force without a restart.
			writeMount(t, w.descriptors, map[string]string{"shop.yaml": "domain: shop\ndescriptors:\n" +
				"  - {key: user, rate_limit: {requests_per_unit: 1, unit: hour}}\n"})
			deadline := time.Now().Add(20 * time.Second)
			for {
				out, _ := call(t, "call", "--addr", w.grpc, "--domain", "shop", "--descriptor", "user=bob", "--hits", "0")
				if strings.Contains(out, "1/hour") {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("a changed ConfigMap has no effect: %s", out)
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}

func TestASidecarServesARealEnvoyOnItsSocket(t *testing.T) {
	objects := renderBeside(t, nil)
	for _, o := range objects {
		if pod := podOf(decode(t, o)); pod != nil {
			w := startPod(t, objects, &pod.Spec)
			wantTenAMinute(t, startEnvoy(t, w.grpc), "ann")
			if out, code := call(t, "call", "--addr", "unix:"+w.grpc, "--domain", "shop", "--descriptor", "user=ann"); code != 1 {
				t.Errorf("weir call on the socket ends with %d, want 1, as ann is over her limit: %s", code, out)
			}
		}
	}
}

// The pods of helm test do what they say.
func TestTheTestsOfAReleasePass(t *testing.T) {
	r := render(t, "weir", nil)
	w := startRendered(t, r)
	at := strings.NewReplacer("weir:8081", w.grpc, "weir:6070", strings.TrimPrefix(w.admin, "http://"))
	ran := 0
	for _, o := range r.Objects {
		if o.Kind() != "Pod" {
			continue
		}
		var args []string
		for _, arg := range podOf(decode(t, o)).Spec.Containers[0].Args {
			args = append(args, at.Replace(arg))
		}
		if out, code := call(t, args...); code != 0 {
			t.Errorf("%s: weir %v ends with %d: %s", o, args, code, out)
		}
		ran++
	}
	if ran != 2 {
		t.Errorf("%d pods of helm test are rendered, want 2", ran)
	}
}

func TestRenderedDescriptorsAreRight(t *testing.T) {
	forEachCase(t, func(t *testing.T, r *Rendered) {
		for _, o := range r.Objects {
			data, ok := o.At("data").(map[string]any)
			if !ok || !strings.HasSuffix(o.Name(), "-descriptors") {
				continue
			}
			dir := t.TempDir()
			for name, content := range data {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text(content)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if out, code := call(t, "check", dir, "--strict"); code != 0 {
				t.Errorf("%s: weir check says: %s", o, out)
			}
		}
	})
}

// Names and texts that YAML would read as something else arrive as they are.
func TestDescriptorsArriveAsTheyAre(t *testing.T) {
	sent := map[string]any{"on": "domain: on\n", "1.5": "domain: x\n", "indented.yaml": "  # first\n  domain: shop\n"}
	for _, o := range render(t, "weir", map[string]any{"descriptors": sent}).Objects {
		if o.Name() != "weir-descriptors" {
			continue
		}
		for name, want := range sent {
			if got := text(o.At("data", name)); strings.TrimRight(got, " \n") != strings.TrimRight(text(want), "\n") {
				t.Errorf("descriptors.%s arrives as %q, want %q", name, got, want)
			}
		}
		return
	}
	t.Error("there is no ConfigMap of descriptors")
}

// The pod of the CronJob does its work, with the environment that it gets.
func TestTheJobDownsamplesAndEnds(t *testing.T) {
	r := render(t, "weir", map[string]any{"redis": map[string]any{"addresses": []any{startRedis(t)},
		"auth": map[string]any{"existingSecret": "redis-credentials"}}})
	for _, o := range r.Objects {
		if o.Kind() != "CronJob" {
			continue
		}
		pod := podOf(decode(t, o))
		c := pod.Spec.Containers[0]
		files := mountAll(t, r.Objects, &pod.Spec, &c)
		job := exec.Command(weirBinary, c.Args...)
		job.Dir = t.TempDir()
		for _, e := range c.Env {
			job.Env = append(job.Env, e.Name+"="+files.here(e.Value))
		}
		if out, err := job.CombinedOutput(); err != nil || !strings.Contains(string(out), "256 of 256 partitions") {
			t.Errorf("weir %v: %v\n%s", c.Args, err, out)
		}
		return
	}
	t.Error("with Redis there is no CronJob, so its history would never be downsampled")
}
