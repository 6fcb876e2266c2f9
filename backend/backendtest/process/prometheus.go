package process

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// PrometheusOver starts Debian's Prometheus over blocks that promtool makes of OpenMetrics, and returns where it serves.
func PrometheusOver(t testing.TB, openMetrics string) (url string) {
	t.Helper()
	dir := t.TempDir()
	file, blocks := filepath.Join(dir, "history.om"), filepath.Join(dir, "blocks")
	if err := os.WriteFile(file, []byte(openMetrics), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := exec.Command(Tool(t, "promtool"), "tsdb", "create-blocks-from", "openmetrics", "-q", file, blocks).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool makes no blocks: %v\n%s", err, made)
	}
	return Prometheus(t, "", blocks)
}

// Prometheus starts one with a configuration over a folder of blocks, and returns where it serves.
func Prometheus(t testing.TB, configuration, blocks string) (url string) {
	t.Helper()
	config, address := filepath.Join(t.TempDir(), "prometheus.yml"), Addr(t)
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Start(t, "prometheus", nil, Tool(t, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+blocks,
		"--storage.tsdb.retention.time=100y", "--web.listen-address="+address)
	p.AwaitReady(t, func() error {
		answer, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", answer.Status)
		}
		return nil
	})
	return "http://" + address
}
