package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// failureMode is what Envoy does with a request when weir does not answer.
type failureMode bool

const (
	failOpen   failureMode = false
	failClosed failureMode = true
)

// envoy is a running Envoy that asks a weir before it lets a request through to an upstream.
type envoy struct {
	url       string
	http      *http.Client
	accessLog string // file of the lines that testdata/envoy.yaml.tmpl says
}

// startEnvoy runs Envoy with testdata/envoy.yaml.tmpl and waits until it takes requests.
func startEnvoy(t *testing.T, w *weir, mode failureMode) *envoy {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(sendBytes))
	t.Cleanup(upstream.Close)
	address := filepath.Join(t.TempDir(), "admin-address")
	e := &envoy{http: &http.Client{Transport: &http.Transport{}, Timeout: patient.Timeout},
		accessLog: filepath.Join(t.TempDir(), "access.log")}
	p := process.Start(t, "envoy", nil, envoyBinary, "-c", writeBootstrap(t, w, upstream, mode, e.accessLog), "--admin-address-path", address,
		"--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "--file-flush-interval-msec", "50")
	p.AwaitReady(t, func() error {
		admin, err := os.ReadFile(address)
		if err != nil {
			return err
		}
		e.url, err = ingress("http://" + string(admin))
		return err
	})
	t.Cleanup(e.http.CloseIdleConnections)
	return e
}

func writeBootstrap(t *testing.T, w *weir, upstream *httptest.Server, mode failureMode, accessLog string) string {
	t.Helper()
	bootstrap, err := template.ParseFiles(filepath.Join("testdata", "envoy.yaml.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	err = bootstrap.Execute(file, map[string]any{
		"WeirPort":        w.grpcPort,
		"UpstreamPort":    upstream.Listener.Addr().(*net.TCPAddr).Port,
		"FailureModeDeny": mode == failClosed,
		"AccessLog":       accessLog,
	})
	if err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

// ingress asks a ready Envoy's admin port where its only listener is.
func ingress(admin string) (string, error) {
	if err := wantStatus(admin+"/ready", 200); err != nil {
		return "", err
	}
	answer, err := patient.Get(admin + "/listeners?format=json")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var listeners struct {
		Statuses []struct {
			Address struct {
				Socket struct {
					Port int `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&listeners); err != nil {
		return "", fmt.Errorf("reading Envoy's listeners: %w", err)
	}
	if n := len(listeners.Statuses); n != 1 {
		return "", fmt.Errorf("Envoy has %d listeners, want 1", n)
	}
	return fmt.Sprint("http://127.0.0.1:", listeners.Statuses[0].Address.Socket.Port), nil
}

// sendBytes is the upstream: it sends as many bytes as it is asked for, and back what weir has told it is left.
func sendBytes(out http.ResponseWriter, in *http.Request) {
	out.Header().Set("X-Told", in.Header.Get("X-Quota-Left"))
	n, err := strconv.Atoi(in.URL.Query().Get("bytes"))
	if err != nil {
		n = 0
	}
	fmt.Fprint(out, strings.Repeat("x", n))
}

// answer is what a caller of Envoy sees.
type answer struct {
	status    int
	limit     string // x-ratelimit-limit: the strictest limit, then each with its window in seconds
	remaining string // x-ratelimit-remaining
	body      string
	reset     int // x-ratelimit-reset, in seconds; -1 without the header
}

// get sends a request of a user under a plan through Envoy. Query is the part after the question mark.
func (e *envoy) get(t *testing.T, path, query, plan, user string) answer {
	t.Helper()
	a, err := e.send(path, query, plan, user)
	if err != nil {
		t.Fatalf("GET %s through Envoy: %v", path, err)
	}
	return a
}

func (e *envoy) send(path, query, plan, user string) (answer, error) {
	target, err := url.Parse(e.url)
	if err != nil {
		return answer{}, err
	}
	target.Path, target.RawQuery = path, query
	response, err := e.http.Do(&http.Request{URL: target, Header: http.Header{"X-Plan": {plan}, "X-User": {user}}})
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{
		status:    response.StatusCode,
		limit:     response.Header.Get("x-ratelimit-limit"),
		remaining: response.Header.Get("x-ratelimit-remaining"),
		body:      string(body),
		reset:     -1,
	}
	if reset := response.Header.Get("x-ratelimit-reset"); reset != "" {
		if a.reset, err = strconv.Atoi(reset); err != nil {
			return answer{}, fmt.Errorf("x-ratelimit-reset is not a number of seconds: %w", err)
		}
	}
	return a, nil
}

// wants compares an answer with what was promised; its reset must lie between two bounds, in seconds.
func (a answer) wants(t *testing.T, promise string, want answer, resetFrom, resetTo int) {
	t.Helper()
	want.reset = a.reset
	if a != want {
		t.Errorf("%s: Envoy answered %+v, want %+v", promise, a, want)
	}
	if a.reset < resetFrom || a.reset > resetTo {
		t.Errorf("%s: x-ratelimit-reset is %d, want %d to %d seconds", promise, a.reset, resetFrom, resetTo)
	}
}
