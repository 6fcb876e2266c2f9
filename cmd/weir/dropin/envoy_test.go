package dropin_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
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

// answer is what a caller of Envoy sees.
type answer struct {
	status int
	limit  string // x-ratelimit-limit
}

// get sends a request through Envoy.
func (e *envoy) get(path string) (answer, error) {
	a, err := weirtest.Patient.Get(e.url + path)
	if err != nil {
		return answer{}, err
	}
	defer a.Body.Close()
	_, err = io.Copy(io.Discard, a.Body)
	return answer{a.StatusCode, a.Header.Get("x-ratelimit-limit")}, err
}

// wantStatuses sends requests one after the other, and complains unless they are answered so.
func (e *envoy) wantStatuses(t *testing.T, promise, path string, want ...int) (last answer) {
	t.Helper()
	var got []int
	for range want {
		var err error
		if last, err = e.get(path); err != nil {
			t.Fatalf("%s: GET %s through Envoy: %v", promise, path, err)
		}
		got = append(got, last.status)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: Envoy answers %v, want %v", promise, got, want)
	}
	return last
}
