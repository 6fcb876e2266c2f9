package house_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Some releases of Prometheus link Kubernetes' client into whatever imports their engine: 30 MB that nothing of weir uses.
func TestNothingOfKubernetesIsLinked(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./...")
	list.Dir = filepath.Join("..", "..", "..")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("asking go list what weir is made of: %v", err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Fatalf("weir is made of %d packages: this looks in the wrong place and proves nothing", len(packages))
	}
	for _, name := range packages {
		if strings.HasPrefix(name, "k8s.io/") || strings.HasPrefix(name, "sigs.k8s.io/") {
			t.Errorf("weir is made of %s: take a release of github.com/prometheus/prometheus that does not need it", name)
		}
	}
}
