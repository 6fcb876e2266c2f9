package charttest

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// wantPublished pushes two builds of a version to a registry of its own each. Both have the same digests, and a chart from
// there installs the image from there.
func wantPublished(t *testing.T, version string, dirs ...string) {
	t.Helper()
	var before string
	for _, dir := range dirs {
		clone := filepath.Dir(filepath.Dir(dir))
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
		defer server.Close()
		host := server.Listener.Addr().String()
		repository := host + strings.TrimPrefix(registryOfRelease, "ghcr.io")
		said := inClone(t, clone, "make", "-s", "publish", "VERSION="+version, "REGISTRY="+repository, "SIGN=")
		pushed := regexp.MustCompile(`(?m)^`+host+`/\S+@(sha256:[0-9a-f]{64})$`).FindAllStringSubmatch(said, -1)
		if len(pushed) != 2 {
			t.Fatalf("make publish says %q, want the digests of image and chart", said)
		}
		digests := pushed[0][1] + " " + pushed[1][1]
		if before != "" && digests != before {
			t.Errorf("two builds of one commit are published as %s and as %s", before, digests)
		}
		before = digests

		rendered := inClone(t, clone, "bin/helm", "template", "weir", "oci://"+repository+"/charts/weir", "--plain-http",
			"--version", version, "--set", "global.imageRegistry="+host)
		if want := "image: " + pushed[0][0]; !strings.Contains(rendered, want) {
			t.Errorf("the published chart does not install %s:\n%s", want, rendered)
		}
	}
}

// inClone is what a command prints, which must succeed.
func inClone(t *testing.T, clone string, args ...string) string {
	t.Helper()
	command := exec.Command(args[0], args[1:]...)
	command.Dir, command.Env = clone, append(os.Environ(), "GOBIN="+filepath.Join(clone, "bin"))
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, &errors)
	}
	return string(out)
}
