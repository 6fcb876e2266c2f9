package cookbook_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// The bootstrap and the limits that the repository ships, as they are, but for ports, and for windows and a timeout that
// no busy machine outlasts.
func TestShippedBootstrapAndLimitsHold(t *testing.T) {
	const domain = "shop"
	limits := replaced(t, "k8s/base/config/shop.yaml", "unit: hour", "unit: day", "unit: minute", "unit: hour")
	w := weirtest.ServeFiles(t, map[string]string{"shop.yaml": limits})
	recorder, port := startRecorder(t, w.GRPC, []string{domain})
	accessLog := filepath.Join(t.TempDir(), "access.log")
	bootstrap := replaced(t, "k8s/envoy/envoy.yaml", "port_value: 9901", "port_value: 0", "port_value: 10000", "port_value: 0",
		"port_value: 8081", fmt.Sprint("port_value: ", port), "timeout: 0.1s", "timeout: 60s", "failure_mode_deny: false", "failure_mode_deny: true",
		"port_value: 8000", fmt.Sprint("port_value: ", startUpstream(t)), "/dev/stdout", accessLog)
	e := weirtest.StartEnvoy(t, []byte(bootstrap), 1)
	for _, want := range []string{shipped, tooLong} {
		if got := recorder.play(t, domain, e.Addrs["ingress"], want); got != want {
			t.Errorf("what is shipped should do\n%s\nbut does\n%s", want, got)
		}
	}
	weirtest.Eventually(t, "Envoy's access log names the rule", func() error {
		text, err := os.ReadFile(accessLog)
		if !logged.Match(text) {
			return fmt.Errorf("it has (%v)\n%s", err, text)
		}
		return nil
	})
}

// logged is what Envoy's access log has of a request that passes and of one that is denied.
var logged = regexp.MustCompile(`(?s)200 GET /pay x-user=ann rule=- limit=- retry_after=-\n.*` +
	`429 GET /pay\?x=4 x-user=ann rule=user/path=/pay limit=5/hour retry_after=[0-9]+\n`)

// shipped is what becomes of requests where all that is shipped works together: paying is limited however the path is
// spelled, static files are free, and a request counts once for its user.
const shipped = `GET /pay  x-user: ann          → user=ann + user=ann,path=/pay         → 200  4 of 5 left
GET /pay?x=1  x-user: ann      → user=ann + user=ann,path=/pay         → 200  3 of 5 left
GET /pay?x=2  x-user: ann      → user=ann + user=ann,path=/pay         → 200  2 of 5 left
GET //pay  x-user: ann         → user=ann + user=ann,path=/pay         → 200  1 of 5 left
GET /%70ay?x=3  x-user: ann    → user=ann + user=ann,path=/pay         → 200  0 of 5 left
GET /pay?x=4  x-user: ann      → user=ann + user=ann,path=/pay         → 429  0 of 5 left  "You are paying too fast. Please wait a minute.\n"
GET /pay  x-user: bob          → user=bob + user=bob,path=/pay         → 200  4 of 5 left
GET /  x-user: bob             → user=bob + user=bob,path=/            → 200  8 of 10 left
20× GET /static/x  x-user: bob → user=bob + user=bob,path=/static/x    → 200
8× GET /?x=1  x-user: bob      → user=bob + user=bob,path=/            → 200  0 of 10 left
GET /  x-user: bob             → user=bob + user=bob,path=/            → 429  0 of 10 left
GET /static/y?v=2  x-user: bob → user=bob + user=bob,path=/static/y    → 200
9× GET /pay  x-user: monitor   → user=monitor + user=monitor,path=/pay → 200
GET /                          → (nothing)                             → 200
`

// tooLong are requests that Envoy refuses without asking weir, which counts nothing.
const tooLong = `GET /pay  x-user: 257×a              → (nothing)                     → 431
GET /pay  x-user: 55000×a            → (nothing)                     → 431  "Request Header Fields Too Large"
GET /pay  x-user: cat  x-user: 257×a → (nothing)                     → 431
GET /pay?55000×a  x-user: cat        → (nothing)                     → 431  "Request Header Fields Too Large"
GET /pay  cookie: 20000×a            → (nothing)                     → 431  "Request Header Fields Too Large"
GET /pay  x-user: cat                → user=cat + user=cat,path=/pay → 200  4 of 5 left
`

// The Envoy that limits by itself, as it is, but for ports: a bucket's limit holds once it has an assignment.
func TestShippedQuotasHold(t *testing.T) {
	const rules = "domain: weir\ndescriptors:\n- {key: route, value: default, rate_limit: {unit: day, requests_per_unit: 0}}\n" +
		"- {key: route, value: api, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 6}}]}\n"
	w := weirtest.ServeFiles(t, map[string]string{"weir.yaml": rules})
	_, grpc, _ := net.SplitHostPort(w.GRPC)
	host, backend, _ := net.SplitHostPort(process.Addr(t))
	bootstrap := replaced(t, "k8s/envoy/quota.yaml", "port_value: 9901", "port_value: 0", "port_value: 10000", "port_value: 0",
		"address: 127.0.0.1, port_value: 8081", "address: "+strings.TrimSuffix(w.GRPC, ":"+grpc)+", port_value: "+grpc,
		"address: 127.0.0.1, port_value: 9000", "address: "+host+", port_value: "+backend)
	e := weirtest.StartEnvoy(t, []byte(bootstrap), 2)
	for _, user := range []string{"", "ann"} {
		weirtest.Eventually(t, "user "+user+" is refused", func() error {
			r, err := http.NewRequest(http.MethodGet, "http://"+e.Addrs["ingress"]+"/", nil)
			if err != nil {
				return err
			}
			r.Header.Set("x-user-id", user)
			answer, err := weirtest.Patient.Do(r)
			if err == nil && answer.StatusCode != http.StatusTooManyRequests {
				err = fmt.Errorf("it is answered %s", answer.Status)
			}
			return err
		})
	}
}

// replaced reads a file with each of the texts in pairs replaced by the one after it. All must be there.
func replaced(t *testing.T, file string, pairs ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%s has no %q", file, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}
