package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// weirBinary is the weir under test, and shared the browser: TestMain sees to both.
var (
	weirBinary string
	shared     *chromium
)

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "before the tests:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "weir-page-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	weirBinary = filepath.Join(dir, "weir")
	build := exec.Command("go", "build", "-o", weirBinary, "./cmd/weir")
	build.Dir = filepath.FromSlash("../../..")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building weir: %w\n%s", err, out)
	}
	if shared, err = startChromium(); err != nil {
		return 0, err
	}
	defer shared.stop()
	defer year.end()
	return m.Run(), nil
}

// weir is a running weir.
type weir struct {
	admin string // http://host:port
	grpc  string // host:port
	http  string // http://host:port
	log   output
	stop  func()
}

// output is what a process has printed. It may be used by many goroutines at once.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// serve starts weir with descriptor files by their names, and waits until it is ready.
func serve(dir string, files map[string]string, env ...string) (*weir, error) {
	config := filepath.Join(dir, "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(config, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	w := &weir{admin: fmt.Sprint("http://127.0.0.1:", ports[0]), grpc: fmt.Sprint("127.0.0.1:", ports[1]),
		http: fmt.Sprint("http://127.0.0.1:", ports[2])}
	cmd := exec.Command(weirBinary, "serve", "--config", config)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + dir, "DATA_DIR=" + filepath.Join(dir, "data"), "DRAIN_DELAY=0s",
		"HISTORY_FLUSH_INTERVAL=1s", "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		fmt.Sprint("DEBUG_PORT=", ports[0]), fmt.Sprint("GRPC_PORT=", ports[1]), fmt.Sprint("PORT=", ports[2])}, env...)
	cmd.Stdout, cmd.Stderr = &w.log, &w.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended does not matter
		close(done)
	}()
	w.stop = func() {
		_ = cmd.Process.Kill() // an error means that it has ended
		<-done
	}
	for began, why := time.Now(), ""; ; time.Sleep(20 * time.Millisecond) {
		select {
		case <-done:
			return nil, fmt.Errorf("weir ends before it is ready: %s", w.log.String())
		default:
		}
		// It is ready only once it has rules, and there may be none.
		if body, status, err := get(w.admin + "/readyz"); err == nil && (status == http.StatusOK || len(files) == 0) {
			return w, nil
		} else if status != 0 {
			why = string(body)
		}
		if time.Since(began) > patience {
			w.stop()
			return nil, fmt.Errorf("weir is not ready: %s\n%s", why, w.log.String())
		}
	}
}

// start is serve for a test, with which weir ends.
func start(t *testing.T, files map[string]string, env ...string) *weir {
	t.Helper()
	w, err := serve(t.TempDir(), files, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.stop()
		if t.Failed() {
			t.Logf("weir printed:\n%s", w.log.String())
		}
	})
	return w
}

// freePorts returns ports that nobody listens on, below those that the kernel gives away and apart from those of
// backend/backendtest/redistest, cmd/weir/e2e and helm/charttest.
func freePorts(n int) (ports []int, err error) {
	for range 1000 {
		port := 20_000 + rand.IntN(6_000)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue
		}
		defer l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("of 1,000 ports no %d are free", n)
}

func get(at string) (body []byte, status int, err error) {
	client := http.Client{Timeout: patience}
	r, err := client.Get(at)
	if err != nil {
		return nil, 0, err
	}
	defer r.Body.Close()
	body, err = io.ReadAll(r.Body)
	return body, r.StatusCode, err
}

// call sends gRPC requests. Their verdicts do not matter.
func (w *weir) call(domain, descriptor string, times int) error {
	cmd := exec.Command(weirBinary, "call", "--addr", w.grpc, "--domain", domain, "--descriptor", descriptor)
	if times > 1 {
		cmd.Args = append(cmd.Args, "--for", "1s", "--rate", fmt.Sprint(times))
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: over the limit
		return fmt.Errorf("weir call of %q in %q: %w\n%s", descriptor, domain, err, out)
	}
	return nil
}

// answer is what the API says of a history.
type answer struct {
	From, To int64
	Warnings []string
	Series   []struct {
		Domain, Path, Outcome, Value string
		Total, Lifetime              json.Number
		Points                       []struct {
			Start, Width int64
			Sum, Peak    json.Number
			Tier         string
		}
	}
}

// ask asks the API for a history.
func (w *weir) ask(t *testing.T, parameters url.Values) (a answer) {
	t.Helper()
	at := w.admin + "/api/v1/history?" + parameters.Encode()
	body, status, err := get(at)
	if err != nil || status != http.StatusOK {
		t.Fatalf("GET %s: %d %s %v", at, status, body, err)
	}
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("GET %s: %v", at, err)
	}
	return a
}

// post sends a request over HTTP, as a key with a = cannot be given to weir call. Its verdict does not matter.
func (w *weir) post(domain, key, value string) error {
	type entry struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	type descriptor struct {
		Entries []entry `json:"entries"`
	}
	body, err := json.Marshal(map[string]any{"domain": domain, "descriptors": []descriptor{{[]entry{{key, value}}}}})
	if err != nil {
		return err
	}
	client := http.Client{Timeout: patience}
	r, err := client.Post(w.http+"/json", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK && r.StatusCode != http.StatusTooManyRequests {
		return fmt.Errorf("POST /json of %q in %q: %d %s %v", key, domain, r.StatusCode, text, err)
	}
	return nil
}

// settled waits until what has been counted has reached the history.
func (w *weir) settled() error {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		body, status, err := get(w.admin + "/metrics")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("GET /metrics: %d %v", status, err)
		}
		metrics := string(body)
		counted := sum(metrics, "weir_hits_total") + sum(metrics, "weir_near_hits_total") + sum(metrics, "weir_shadow_hits_total")
		landed := sum(metrics, "weir_history_landed_hits_total")
		if counted > 0 && counted == landed {
			return nil
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%v hits have been counted, and %v are in the history", counted, landed)
		}
	}
}

// sum adds up the samples of a metric.
func sum(metrics, name string) (total float64) {
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		fields := strings.Fields(rest)
		if n, err := strconv.ParseFloat(fields[len(fields)-1], 64); err == nil {
			total += n
		}
	}
	return total
}
