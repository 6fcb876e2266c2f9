package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// shared is the browser of all tests.
var shared *chromium

func TestMain(m *testing.M) {
	if code, ran := inOwnNetwork(); ran {
		os.Exit(code)
	}
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "before the tests:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
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
	http  string // http://host:port
	stop  func()
}

// serve starts a weir that outlives the test, with descriptor files by their names, and waits until it is ready.
func serve(t *testing.T, dir string, files map[string]string, env ...string) (*weir, error) {
	t.Helper()
	config := filepath.Join(dir, "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(config, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	var ports [3]int
	var releases [3]func()
	for i := range ports {
		var err error
		if ports[i], releases[i], err = process.HoldPort(); err != nil {
			return nil, err
		}
	}
	w := &weir{admin: fmt.Sprint("http://127.0.0.1:", ports[0]), http: fmt.Sprint("http://127.0.0.1:", ports[2])}
	cmd := exec.Command(process.Weir(t), "serve", "--config", config)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + dir, "DATA_DIR=" + filepath.Join(dir, "data"), "DRAIN_DELAY=0s",
		"HISTORY_FLUSH_INTERVAL=1s", "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		fmt.Sprint("DEBUG_PORT=", ports[0]), fmt.Sprint("GRPC_PORT=", ports[1]), fmt.Sprint("PORT=", ports[2])}, env...)
	p, err := process.Launch("weir", cmd, new(process.Output), "")
	if err != nil {
		return nil, err
	}
	w.stop = func() {
		p.Kill()
		for _, release := range releases {
			release()
		}
	}
	err = p.Await(func() error { // it is ready only once it has rules, and there may be none
		text, status, err := get(w.admin + "/readyz")
		if err == nil && status != http.StatusOK && len(files) > 0 {
			err = fmt.Errorf("%d %s", status, text)
		}
		return err
	})
	if err != nil {
		w.stop()
	}
	return w, err
}

// start is serve for a test, with which weir ends.
func start(t *testing.T, files map[string]string, env ...string) *weir {
	t.Helper()
	w, err := serve(t, t.TempDir(), files, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stop)
	return w
}

var patient = http.Client{Timeout: process.Hang}

func get(at string) (body []byte, status int, err error) {
	r, err := patient.Get(at)
	if err != nil {
		return nil, 0, err
	}
	defer r.Body.Close()
	body, err = io.ReadAll(r.Body)
	return body, r.StatusCode, err
}

// answer is what the API says of a history.
type answer struct {
	Series []struct {
		Outcome         string
		Total, Lifetime int64
	}
}

// ask asks the API for a history, or for what stands below it.
func (w *weir) ask(t *testing.T, below string, parameters url.Values, into any) {
	t.Helper()
	at := w.admin + "/api/v1/history" + below + "?" + parameters.Encode()
	body, status, err := get(at)
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal(body, into)
	}
	if err != nil || status != http.StatusOK {
		t.Fatalf("GET %s: %d %s %v", at, status, body, err)
	}
}

// post sends a request over HTTP, with some entries, key and value in turn. Its verdict does not matter.
func (w *weir) post(domain string, entries ...string) error {
	var asked []any
	for pair := range slices.Chunk(entries, 2) {
		asked = append(asked, map[string]string{"key": pair[0], "value": pair[1]})
	}
	body, err := json.Marshal(map[string]any{"domain": domain, "descriptors": []any{map[string]any{"entries": asked}}})
	if err != nil {
		return err
	}
	r, err := patient.Post(w.http+"/json", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK && r.StatusCode != http.StatusTooManyRequests {
		return fmt.Errorf("POST /json of %q in %q: %d %s %v", entries, domain, r.StatusCode, text, err)
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
		if time.Since(began) > process.Hang {
			return fmt.Errorf("%v hits have been counted, and %v are in the history", counted, landed)
		}
	}
}

// sum adds up the samples of a metric.
func sum(metrics, name string) (total float64) {
	for _, sample := range regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(metrics, -1) {
		n, _ := strconv.ParseFloat(sample[1], 64) // what is no number counts nothing
		total += n
	}
	return total
}
