package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

const threeAnHour = `
domain: shop
descriptors:
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 3 }
`

// linked returns the path of a link to weir of another name.
func linked(t *testing.T, name string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(weirBinary, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// configDir returns a folder of descriptor files, by name.
func configDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// startRatelimit runs a command line that starts weir in the place of envoyproxy/ratelimit, and waits until it is ready.
func startRatelimit(t *testing.T, line []string, settings ...string) *weir {
	t.Helper()
	process.Weir(t) // so that go test sees what its result hangs on
	w := &weir{grpcPort: process.Port(t)}
	port, debugPort := process.Port(t), process.Port(t)
	w.http, w.admin = fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", debugPort)
	config := configDir(t, map[string]string{"shop.yaml": threeAnHour})
	w.env = append([]string{
		"RUNTIME_ROOT=" + filepath.Dir(config), "RUNTIME_APPDIRECTORY=" + filepath.Base(config), "RUNTIME_WATCH_ROOT=false",
		fmt.Sprint("GRPC_PORT=", w.grpcPort), fmt.Sprint("PORT=", port), fmt.Sprint("DEBUG_PORT=", debugPort),
		"USE_STATSD=false", "DRAIN_DELAY=0s",
	}, settings...)
	w.Process = process.Start(t, "ratelimit", w.env, line[0], line[1:]...)
	w.AwaitReady(t, func() error { return wantStatus(w.admin+"/readyz", 200) })
	return w
}

// warned returns the warnings in a process's log that contain a text.
func warned(p *process.Process, text string) (lines []string) {
	for line := range strings.Lines(p.Log.String()) {
		if strings.Contains(line, "level=warning") || strings.Contains(line, "level=WARN") {
			if strings.Contains(line, text) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func TestWhateverNamesRatelimitStartsIt(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		promise string
		line    []string
		flags   string // which it tells to have no effect
	}{
		{"a compose file's command behind the entry point", []string{weirBinary, "/bin/ratelimit"}, ""},
		{"with a flag as Envoy AI Gateway passes it", []string{linked(t, "ratelimit"), "--quotaRateLimitServiceAddr=gateway:18002"},
			"flags=--quotaRateLimitServiceAddr"},
		{"with what would be a command of weir", []string{linked(t, "ratelimit"), "version"}, "arguments=1"},
	} {
		t.Run(tc.promise, func(t *testing.T) {
			t.Parallel()
			w := startRatelimit(t, tc.line, "BACKEND_TYPE=memory")
			if s, err := w.client(t).hit("basic", "ann"); err != nil || s.LimitRemaining != 2 {
				t.Errorf("it answers %v, %v; want 2 of 3 left", s, err)
			}
			if tc.flags == "" {
				if told := warned(w.Process, "arguments"); len(told) != 0 {
					t.Errorf("it warns of arguments that nobody gave: %q", told)
				}
			} else if told := warned(w.Process, "arguments"); len(told) != 1 || !strings.Contains(told[0], tc.flags) {
				t.Errorf("it warns %q of its arguments, want one line with %q", told, tc.flags)
			}
			if told := warned(w.Process, "started as ratelimit"); len(told) != 1 {
				t.Errorf("it tells %q of rolling windows, want one line", told)
			}
			w.Terminate(t)
			if code := w.ExitCode(t); code != 0 {
				t.Errorf("after a drain it ends with %d", code)
			}
			if left, err := os.ReadDir(w.Dir()); err != nil || len(left) > 0 {
				t.Errorf("it wrote %v (%v) into its working directory, which is read-only under Envoy Gateway", left, err)
			}
		})
	}
}

// Every value here starts envoyproxy/ratelimit, and was refused by weir, or asks for what weir has no use for.
func TestAnEnvironmentThatStartsRatelimitStartsWeir(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	_, port, _ := strings.Cut(server.Addr, ":")
	w := startRatelimit(t, []string{linked(t, "ratelimit")},
		"HOST=", "GRPC_HOST=0.0.0.0", "LOG_FORMAT=Text", "LOG_LEVEL=Warning", "BACKEND_TYPE=",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=Single", "REDIS_URL=redis://:"+port+"?db=0&timeout=5s", "REDIS_AUTH=",
		"REDIS_POOL_ON_EMPTY_BEHAVIOR=", "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR=CREATE", "REDIS_PIPELINE_WINDOW=150us",
		"REDIS_PIPELINE_LIMIT=8", "REDIS_CLUSTER_PIPELINE_PARALLELISM=-1", "REDIS_PERSECOND=False", "REDIS_TLS=f",
		"REDIS_STARTUP_MAX_ELAPSED_TIME=-1s", "NEAR_LIMIT_RATIO=0", "SHADOW_MODE=0", "QUOTA_MODE=F", "EXPIRATION_JITTER_MAX_SECONDS=-1",
		"LIMIT_RESPONSE_HEADERS_ENABLED=T", "LIMIT_LIMIT_HEADER=Rate Limit", "GRPC_MAX_CONNECTION_AGE=-1s",
		"MEMCACHE_HOST_PORT=m:11211", "TRACING_ENABLED=true", "TRACING_SAMPLING_RATE=0.1", "EXTRA_TAGS=", "RUNTIME_IGNOREDOTFILES=1",
		"REDIS_PORT=tcp://10.0.0.1:6379", "REDIS_SERVICE_HOST=10.0.0.1", "MEMCACHE_PORT=tcp://10.0.0.2:11211", // from Kubernetes
		"HISTORY=", "REPLICAS=", "ON_BACKEND_FAILURE=", "ALGORITHM=", // which only weir reads
	)
	c := w.client(t)
	eventually(t, "it counts", func() error {
		_, err := c.look("basic", "ann")
		return err
	})
	if s, err := c.hit("basic", "ann"); err != nil || s.LimitRemaining > 2 {
		t.Errorf("it answers %v, %v; want a hit of 3 counted", s, err)
	}
	told := warned(w.Process, "without the effect that they ask for")
	if len(told) != 1 {
		t.Fatalf("what has no effect is told in %q, want one line", told)
	}
	for _, name := range []string{"MEMCACHE_HOST_PORT", "TRACING_ENABLED", "REDIS_PIPELINE_WINDOW", "REDIS_PIPELINE_LIMIT", "REDIS_URL",
		"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", "LIMIT_LIMIT_HEADER", "GRPC_MAX_CONNECTION_AGE", "EXPIRATION_JITTER_MAX_SECONDS"} {
		if !strings.Contains(told[0], name) {
			t.Errorf("it is not told that %s has no effect: %s", name, told[0])
		}
	}
	for _, name := range []string{"REDIS_PORT", "REDIS_SERVICE", "MEMCACHE_PORT", "SHADOW_MODE", "RUNTIME_IGNORE", "LOG_FORMAT"} {
		if strings.Contains(told[0], name) {
			t.Errorf("%s is told of, and is nothing that weir has to tell: %s", name, told[0])
		}
	}
}

func TestRatelimitClientAsksAWeir(t *testing.T) {
	t.Parallel()
	w := startWeir(t, `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1 }
`)
	for i, line := range [][]string{{linked(t, "ratelimit_client")}, {weirBinary, "/bin/ratelimit_client"}, {linked(t, "ratelimit_client")}} {
		args := append(slices.Clone(line[1:]), "-dial_string", w.addr(), "-domain", "shop", "-descriptors", "plan=basic,user=ann")
		p := process.Start(t, "ratelimit_client", nil, line[0], args...)
		verdict := []string{"OK", "OVER_LIMIT", "OVER_LIMIT"}[i]
		if code := p.ExitCode(t); code != 0 || !strings.Contains(p.Log.String(), "overall_code:"+verdict) &&
			!strings.Contains(p.Log.String(), "overall_code: "+verdict) {
			t.Errorf("call %d ends with %d and %q; want 0, and %s", i+1, code, p.Log.String(), verdict)
		}
	}
	p := process.Start(t, "ratelimit_client", nil, linked(t, "ratelimit_client"), "-dial_string", w.addr(), "-descriptors", "k=v")
	if code := p.ExitCode(t); code != 1 || !strings.Contains(p.Log.String(), "request error: ") {
		t.Errorf("without a domain it ends with %d and %q; want 1, and the server's reason", code, p.Log.String())
	}
}

func TestRatelimitConfigCheckTellsGoodFromBad(t *testing.T) {
	t.Parallel()
	process.Weir(t) // so that go test sees what its result hangs on
	more := strings.Replace(threeAnHour, "basic", "gold", 1)
	for _, tc := range []struct {
		promise string
		files   map[string]string
		flags   []string
		code    int
		want    string
	}{
		{"right files", map[string]string{"a.yaml": threeAnHour}, nil, 0, "all rate limit configs ok"},
		{"no files", nil, nil, 0, "all rate limit configs ok"},
		{"a unit that is none", map[string]string{"a.yaml": strings.Replace(threeAnHour, "hour", "our", 1)}, nil, 1, "a.yaml"},
		{"no YAML", map[string]string{"a.yaml": "domain: ["}, nil, 1, "error loading rate limit configs"},
		{"one bad file of two", map[string]string{"a.yaml": threeAnHour, "b.yaml": "domain: b\nother: 1"}, nil, 1, "b.yaml"},
		{"a domain twice", map[string]string{"a.yaml": threeAnHour, "b.yaml": more}, nil, 1, "shop"},
		{"a domain merged", map[string]string{"a.yaml": threeAnHour, "b.yaml": more}, []string{"--merge_domain_configs"}, 0, "ok"},
		{"a wrong flag", nil, []string{"-strict"}, 2, "flag provided but not defined"},
	} {
		for _, line := range [][]string{{linked(t, "ratelimit_config_check")}, {weirBinary, "/bin/ratelimit_config_check"}} {
			args := append(slices.Clone(line[1:]), append([]string{"-config_dir", configDir(t, tc.files)}, tc.flags...)...)
			p := process.Start(t, "ratelimit_config_check", nil, line[0], args...)
			if code := p.ExitCode(t); code != tc.code || !strings.Contains(p.Log.String(), tc.want) {
				t.Errorf("%s: it ends with %d and %q; want %d and %q", tc.promise, code, p.Log.String(), tc.code, tc.want)
			}
		}
	}
	p := process.Start(t, "ratelimit_config_check", nil, linked(t, "ratelimit_config_check"), "-config_dir", "/nowhere")
	if code := p.ExitCode(t); code != 1 || !strings.Contains(p.Log.String(), "error opening directory") {
		t.Errorf("without the folder it ends with %d and %q, want 1 and the reason", code, p.Log.String())
	}
}
