package e2e_test

import (
	"net/http"
	"strconv"
	"testing"
)

func TestCallersGetTheHeadersThatWeirIsAskedFor(t *testing.T) {
	t.Parallel()
	e := startEnvoy(t, startWeir(t, `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1 }
`, "LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_REMAINING_HEADER=X-Left", "RETRY_AFTER_HEADER_ENABLED=true",
		"LIMIT_REQUEST_HEADERS_ENABLED=true", "LIMIT_REQUEST_REMAINING_HEADER=X-Quota-Left"), failOpen)
	for _, want := range []struct {
		status int
		retry  bool
		told   string // what the service behind Envoy has heard is left
	}{{200, false, "0"}, {429, true, ""}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"X-Plan": {"basic"}, "X-User": {"ann"}}
		response, err := e.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		h := response.Header
		if response.StatusCode != want.status || h.Get("RateLimit-Limit") != "1" || h.Get("X-Left") != "0" || h.Get("RateLimit-Remaining") != "" {
			t.Errorf("Envoy answered %d with %v; want %d, and the headers under their names", response.StatusCode, h, want.status)
		}
		if got := h.Get("X-Told"); got != want.told {
			t.Errorf("%d: the service behind Envoy was told that %q is left, want %q", want.status, got, want.told)
		}
		for name, asked := range map[string]bool{"RateLimit-Reset": true, "Retry-After": want.retry} {
			seconds, err := strconv.Atoi(h.Get(name))
			if asked && (err != nil || seconds < hourFrom-600 || seconds > hourTo) {
				t.Errorf("%d: %s is %q; want the seconds of about an hour", want.status, name, h.Get(name))
			}
			if !asked && h.Get(name) != "" {
				t.Errorf("%d: %s is %q; want it on a refusal only", want.status, name, h.Get(name))
			}
		}
	}
}
