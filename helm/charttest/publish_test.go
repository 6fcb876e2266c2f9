package charttest

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// signing are cosign's flags for a key of one's own, with nobody's log to write to.
const signing = "--key cosign.key --yes --allow-insecure-registry --use-signing-config=false --tlog-upload=false"

// wantPublished pushes two builds of a version to a registry of its own each. Both have the same digests, are signed by the
// key, and a chart from there installs the image from there.
func wantPublished(t *testing.T, version string, dirs ...string) {
	t.Helper()
	var before string
	for _, dir := range dirs {
		clone := filepath.Dir(filepath.Dir(dir))
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
		defer server.Close()
		host := server.Listener.Addr().String()
		install := regexp.MustCompile(`(?m)^GOBIN=.* install (\S+)$`).FindStringSubmatch(readText(t, filepath.Join(root, ".ci", "publish")))[1]
		inClone(t, clone, "go", "install", install)
		cosign := filepath.Join("bin", "cosign")
		inClone(t, clone, cosign, "generate-key-pair")
		said := inClone(t, clone, "make", "-s", "publish", "VERSION="+version, "REGISTRY="+host+"/weirproxy/weir", "SIGN="+signing)
		pushed := regexp.MustCompile(`(?m)^`+host+`/\S+@(sha256:[0-9a-f]{64})$`).FindAllStringSubmatch(said, -1)
		if len(pushed) != 2 {
			t.Fatalf("make publish says %q, want the digests of image and chart", said)
		}
		digests := pushed[0][1] + " " + pushed[1][1]
		if before != "" && digests != before {
			t.Errorf("two builds of one commit are published as %s and as %s", before, digests)
		}
		before = digests

		rendered := inClone(t, clone, "bin/helm", "template", "weir", "oci://"+host+"/weirproxy/weir/charts/weir", "--plain-http",
			"--version", version, "--set", "global.imageRegistry="+host)
		if want := "image: " + pushed[0][0]; !strings.Contains(rendered, want) {
			t.Errorf("the published chart does not install %s:\n%s", want, rendered)
		}
		check := append([]string{cosign}, "--key=cosign.pub", "--insecure-ignore-tlog", "--allow-insecure-registry")
		for _, reference := range pushed {
			inClone(t, clone, slices.Insert(check, 1, "verify", reference[0])...)
		}
		amd64 := inClone(t, clone, "go", "-C", "k8s/image", "tool", "crane", "digest", "--full-ref", "--platform", "linux/amd64", pushed[0][0])
		inClone(t, clone, slices.Insert(check, 1, "verify-attestation", "--type=cyclonedx", strings.TrimSpace(amd64))...)
	}
}

// inClone is what a command prints, which must succeed.
func inClone(t *testing.T, clone string, args ...string) string {
	t.Helper()
	command := exec.Command(args[0], args[1:]...)
	command.Dir, command.Env = clone, append(os.Environ(), "COSIGN_PASSWORD=", "GOBIN="+filepath.Join(clone, "bin"))
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, &errors)
	}
	return string(out)
}
