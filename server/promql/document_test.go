package promql_test

import (
	"os"
	"strings"
	"testing"
)

// Clients choose by the version what they ask: Prometheus 3.16.0 is v0.316.0 as a module.
func TestBuildinfoHasTheVersionOfTheEngine(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "github.com/prometheus/prometheus v0.3")
	version, _, _ := strings.Cut(rest, "\n")
	info := serve(t, keeping(t, nil)).get("api/v1/status/buildinfo").Data.(map[string]any)
	if want := "3." + strings.TrimPrefix(version, "0"); info["version"] != want || len(version) < 3 {
		t.Errorf("the version is %v, want %s, as go.mod has the engine", info["version"], want)
	}
}
