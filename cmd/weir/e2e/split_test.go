package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// evil ends the header that it stands in, adds one, and begins a body of its own.
const evil = `evil\"\r\nSet-Cookie: stolen=1\r\nContent-Length: 4\r\n\r\nevil`

// splitting are rules whose texts would be more than what they stand in.
var splitting = weirtest.Rule("named", `unit: hour, requests_per_unit: 3, name: "`+evil+`"`) +
	weirtest.Rule("told", "unit: hour, requests_per_unit: 0") + `    message: "` + evil + `"` + "\n"

// Whoever may write the limits of one domain must not be able to write the answers of everybody behind that Envoy.
func TestRuleTextCannotSplitHeaders(t *testing.T) {
	t.Parallel()
	refuses := weirtest.ServeFiles(t, map[string]string{"shop.yaml": "domain: shop\ndescriptors:\n" + splitting,
		"other.yaml": "domain: other\ndescriptors: []\n"})
	if head, _ := raw(t, startEnvoy(t, refuses), "named", ""); strings.Contains(head, "stolen") {
		t.Errorf("weir has taken the name, and Envoy answers\n%s", head)
	}
	refuses.Says(t, "shop.yaml:7: domain shop, plan=named/user: name is ")

	takes := weirtest.Ratelimit(t, splitting, "BACKEND_TYPE=memory")
	e := startEnvoy(t, takes)
	const clean = `x-ratelimit-limit: 3, 3;w=3600;name="evil%22%0D%0ASet-Cookie: stolen=1%0D%0AContent-Length: 4%0D%0A%0D%0Aevil"`
	if head, _ := raw(t, e, "named", ""); !strings.Contains(head, clean) || strings.Contains(head, "\nSet-Cookie") {
		t.Errorf("as ratelimit the name is to be sent escaped; Envoy answers\n%s", head)
	}
	if told := warned(takes.Process, "name is sent as"); len(told) != 1 {
		t.Errorf("as ratelimit it warns %q, want one line", told)
	}
	for header, within := range map[string]string{"": "\r\n\r\nevil\"\r\nSet-Cookie",
		"content-type: application/grpc\r\n": "grpc-message: evil\"%0D%0ASet-Cookie"} {
		head, body := raw(t, e, "told", header)
		if strings.Contains(head, "\nSet-Cookie") || !strings.Contains(head+"\r\n\r\n"+body, within) {
			t.Errorf("a message is to stay within %q; Envoy answers\n%s\r\n\r\n%s", within, head, body)
		}
	}
}

// startEnvoy runs Envoy with testdata/envoy.yaml.tmpl, which refuses what weir does not
// answer, and returns where it listens.
func startEnvoy(t *testing.T, w *weirtest.Weir) (addr string) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	_, weirPort, _ := net.SplitHostPort(w.GRPC)
	e := weirtest.EnvoyOf(t, "envoy.yaml.tmpl", map[string]any{"WeirPort": weirPort,
		"UpstreamPort": upstream.Listener.Addr().(*net.TCPAddr).Port}, 1)
	return e.Addrs["ingress"]
}

// raw asks an Envoy as a user under a plan, and returns the bytes of the answer before and behind the first empty line.
func raw(t *testing.T, addr, plan, header string) (head, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(process.Hang))
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nhost: shop\r\nx-plan: %s\r\nx-user: ann\r\n%scontent-length: 0\r\n"+
		"connection: close\r\n\r\n", plan, header)
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ = strings.Cut(string(all), "\r\n\r\n")
	return head, body
}
