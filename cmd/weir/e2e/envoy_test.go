package e2e_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// envoy is a running Envoy that asks a weir before it lets a request through to an upstream.
type envoy struct{ url string }

// startEnvoy runs Envoy with testdata/envoy.yaml.tmpl, which refuses what weir does not answer.
func startEnvoy(t *testing.T, w *weirtest.Weir) *envoy {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		out.Header().Set("X-Told", in.Header.Get("X-Quota-Left")) // what weir has told it is left
	}))
	t.Cleanup(upstream.Close)
	_, weirPort, _ := net.SplitHostPort(w.GRPC)
	e := weirtest.EnvoyOf(t, "envoy.yaml.tmpl", map[string]any{"WeirPort": weirPort,
		"UpstreamPort": upstream.Listener.Addr().(*net.TCPAddr).Port}, 1)
	return &envoy{"http://" + e.Addrs["ingress"]}
}

// get sends a request of a user under a plan through Envoy, and returns the status and the headers of the answer.
func (e *envoy) get(t *testing.T, path, plan, user string) (status int, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"X-Plan": {plan}, "X-User": {user}}
	response, err := weirtest.Patient.Do(request)
	if err != nil {
		t.Fatalf("GET %s through Envoy: %v", path, err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header
}

// wantAboutAnHour wants seconds: a window of an hour has buckets of a minute, so that the oldest hit leaves after 60 to 61
// minutes, and some have passed since it came.
func wantAboutAnHour(t *testing.T, what, seconds string) {
	t.Helper()
	if n, err := strconv.Atoi(seconds); err != nil || n < 3000 || n > 3660 {
		t.Errorf("%s is %q, want the whole seconds of about an hour", what, seconds)
	}
}
