package promql_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/server/promql/engine"
)

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Clients choose by the version what they ask: Prometheus 3.16.0 is v0.316.0 as a module.
func TestBuildinfoHasTheVersionOfTheEngine(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "..", "..", "go.mod"), "github.com/prometheus/prometheus v0.3")
	version, _, _ := strings.Cut(rest, "\n")
	info := serve(t, keeping(t, nil)).get("api/v1/status/buildinfo").Data.(map[string]any)
	if want := "3." + strings.TrimPrefix(version, "0"); info["version"] != want || len(version) < 3 {
		t.Errorf("the version is %v, want %s, as go.mod has the engine", info["version"], want)
	}
}

func TestMetadataTellsOfEachMetric(t *testing.T) {
	data := serve(t, keeping(t, nil)).get("api/v1/metadata").Data.(map[string]any)
	document := read(t, "engine", "README.md")
	for _, name := range []string{engine.HitsTotal, engine.NearTotal, engine.ShadowTotal, engine.HitsPeak, engine.LimitRequests} {
		if _, there := data[name]; !there || !strings.Contains(document, "`"+name+"`") {
			t.Errorf("metadata (%v) or engine/README.md do not tell of %s", data, name)
		}
	}
	if len(data) != 5 {
		t.Errorf("metadata tells of %d metrics, want 5", len(data))
	}
}
