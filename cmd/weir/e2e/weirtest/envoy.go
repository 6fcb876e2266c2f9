package weirtest

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// Envoy is a running Envoy.
type Envoy struct {
	Process *process.Process
	Admin   string            // URL
	Addrs   map[string]string // host:port of its listeners, by name
}

// StartEnvoy runs Envoy with a bootstrap, and waits until it takes requests on so many listeners.
func StartEnvoy(t testing.TB, bootstrap []byte, listeners int) *Envoy {
	t.Helper()
	dir, e := t.TempDir(), &Envoy{}
	file, admin := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin-address")
	if err := os.WriteFile(file, bootstrap, 0o644); err != nil {
		t.Fatal(err)
	}
	p := process.Start(t, "envoy", nil, process.Tool(t, "envoy"), "-c", file, "--admin-address-path", admin, "--concurrency", "1",
		"--disable-hot-restart", "--log-level", "warning", "--file-flush-interval-msec", "50")
	e.Process = p
	p.AwaitReady(t, func() error {
		where, err := os.ReadFile(admin)
		if err != nil {
			return err
		}
		e.Admin = "http://" + string(where)
		return e.listens(listeners)
	})
	return e
}

// EnvoyOf is StartEnvoy with one of the templates in a test's testdata, which is given the data.
func EnvoyOf(t testing.TB, name string, data map[string]any, listeners int) *Envoy {
	t.Helper()
	var bootstrap bytes.Buffer
	templates, err := template.ParseGlob(filepath.Join("testdata", "*.tmpl"))
	if err == nil {
		err = templates.ExecuteTemplate(&bootstrap, name, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return StartEnvoy(t, bootstrap.Bytes(), listeners)
}

// listens asks a ready Envoy where its listeners are.
func (e *Envoy) listens(want int) error {
	if err := WantStatus(e.Admin+"/ready", 200); err != nil {
		return err
	}
	text, err := Get(e.Admin + "/listeners") // a line each: NAME::HOST:PORT
	lines := strings.Fields(text)
	if err == nil && len(lines) != want {
		err = fmt.Errorf("Envoy has the listeners %q, want %d", lines, want)
	}
	e.Addrs = make(map[string]string)
	for _, line := range lines {
		name, addr, _ := strings.Cut(line, "::")
		e.Addrs[name] = addr
	}
	return err
}

// Stat returns one of Envoy's counters, 0 for one that was never raised.
func (e *Envoy) Stat(t testing.TB, name string) (value int) {
	t.Helper()
	text, err := Get(e.Admin + "/stats?type=Counters&filter=" + url.QueryEscape("^"+name+"$"))
	if err == nil && text != "" {
		_, err = fmt.Sscanf(text, name+": %d", &value)
	}
	if err != nil {
		t.Fatalf("reading Envoy's counter %s: %v", name, err)
	}
	return value
}
