package dropin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// envoy is a running Envoy with a filter for limits before an upstream of its own, which answers 200.
type envoy struct {
	*weirtest.Envoy
	url string // of its listener
}

// startEnvoy runs Envoy with a template of testdata, which is given the upstream's port beside the data.
func startEnvoy(t *testing.T, file string, data map[string]any) *envoy {
	t.Helper()
	data["UpstreamPort"] = process.Port(t)
	e := weirtest.EnvoyOf(t, file, data, 2)
	return &envoy{e, "http://" + e.Addrs["ingress"]}
}

// wantErrors complains unless Envoy counts so many calls without an answer of weir.
func (e *envoy) wantErrors(t *testing.T, want int) {
	t.Helper()
	if n := e.Stat(t, "cluster.upstream.ratelimit.error"); n != want {
		t.Errorf("Envoy counts %d errors, want %d", n, want)
	}
}

// get sends a request through Envoy, and returns the answer's x-ratelimit-limit.
func (e *envoy) get(t *testing.T, path string) (status int, limit string) {
	t.Helper()
	a, err := weirtest.Patient.Get(e.url + path)
	if err != nil {
		t.Fatalf("GET %s through Envoy: %v", path, err)
	}
	a.Body.Close()
	return a.StatusCode, a.Header.Get("x-ratelimit-limit")
}

// wantStatuses sends requests one after the other, complains unless they are answered so, and returns the last limit.
func (e *envoy) wantStatuses(t *testing.T, promise, path string, want ...int) (limit string) {
	t.Helper()
	got := make([]int, len(want))
	for i := range want {
		got[i], limit = e.get(t, path)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: Envoy answers %v, want %v", promise, got, want)
	}
	return limit
}

// wantRules waits until the lines of /rlconfig hold these.
func wantRules(t *testing.T, promise, url string, lines ...string) {
	t.Helper()
	weirtest.Eventually(t, promise, func() error {
		text, err := weirtest.Get(url)
		for _, line := range lines {
			if err == nil && !slices.Contains(strings.Split(text, "\n"), line) {
				err = fmt.Errorf("/rlconfig prints\n%s\nwant a line\n%s", text, line)
			}
		}
		return err
	})
}

// counted returns the sum of the counts in Redis whose keys begin so: there is one for each window.
func counted(t *testing.T, server *redistest.Server, stem string) int {
	t.Helper()
	keys, err := server.Client().Keys(t.Context(), stem+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, key := range keys {
		n, err := server.Client().Get(t.Context(), key).Int()
		if err != nil {
			t.Fatalf("the count at %s: %v", key, err)
		}
		sum += n
	}
	return sum
}
