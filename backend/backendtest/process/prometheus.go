package process

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Prometheus starts Debian's Prometheus over blocks that promtool makes of OpenMetrics, and returns where it serves.
func Prometheus(t testing.TB, openMetrics string) (url string) {
	t.Helper()
	dir := t.TempDir()
	file, blocks, config := filepath.Join(dir, "history.om"), filepath.Join(dir, "blocks"), filepath.Join(dir, "prometheus.yml")
	for name, content := range map[string]string{file: openMetrics, config: ""} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, err := exec.Command(Tool(t, "promtool"), "tsdb", "create-blocks-from", "openmetrics", "-q", file, blocks).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool makes no blocks: %v\n%s", err, made)
	}
	address := Addr(t)
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
