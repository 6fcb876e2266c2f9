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
		cosign := func(args ...string) string {
			return inClone(t, clone, append([]string{"go", "run", "github.com/sigstore/cosign/v3/cmd/cosign@" + cosignVersion(t)}, args...)...)
		}
		cosign("generate-key-pair")
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
		for _, reference := range pushed {
			cosign("verify", "--key", "cosign.pub", "--insecure-ignore-tlog", "--allow-insecure-registry", reference[0])
		}
		image := strings.TrimSpace(inClone(t, clone, "go", "-C", "k8s/image", "tool", "crane", "digest", "--platform", "linux/amd64", pushed[0][0]))
		cosign("verify-attestation", "--key", "cosign.pub", "--type", "cyclonedx", "--insecure-ignore-tlog", "--allow-insecure-registry",
			host+"/weirproxy/weir@"+image)
	}
}

// cosignVersion is that which publishes.
func cosignVersion(t *testing.T) string {
	t.Helper()
	return regexp.MustCompile(`cosign@(v[0-9.]+)`).FindStringSubmatch(readText(t, filepath.Join(root, ".ci", "publish")))[1]
}

// inClone is what a command prints, which must succeed.
func inClone(t *testing.T, clone string, args ...string) string {
	t.Helper()
	command := exec.Command(args[0], args[1:]...)
	command.Dir, command.Env = clone, append(os.Environ(), "COSIGN_PASSWORD=")
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, &errors)
	}
	return string(out)
}
