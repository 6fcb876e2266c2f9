package charttest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wantPublished pushes two builds of a version. Both have the same digests, and a chart from there installs the image from
// there. The last is signed, too.
func wantPublished(t *testing.T, version, repository string, dirs ...string) {
	t.Helper()
	var before string
	for i, dir := range dirs {
		clone := filepath.Dir(filepath.Dir(dir))
		publish := []string{"make", "-s", "publish", "VERSION=" + version, "REGISTRY=" + repository}
		said := inClone(t, clone, append(publish, "SIGN=")...)
		pushed := regexp.MustCompile(`(?m)^`+repository+`\S*@(sha256:[0-9a-f]{64})$`).FindAllStringSubmatch(said, -1)
		if len(pushed) != 2 {
			t.Fatalf("make publish says %q, want the digests of image and chart", said)
		}
		digests := pushed[0][1] + " " + pushed[1][1]
		if before != "" && digests != before {
			t.Errorf("two builds of one commit are published as %s and as %s", before, digests)
		}
		before = digests

		rendered := inClone(t, clone, "bin/helm", "template", "weir", "oci://"+repository+"/charts/weir", "--plain-http",
			"--version", version)
		if want := "image: " + pushed[0][0]; !strings.Contains(rendered, want) {
			t.Errorf("the published chart does not install %s:\n%s", want, rendered)
		}
		if i == len(dirs)-1 {
			t.Run("signed", func(t *testing.T) { wantSigned(t, clone, publish, pushed[0][0], pushed[1][0]) })
		}
	}
}

// wantSigned publishes once more, signed by a key of its own and in nobody's log. By that key image, chart and bill of
// materials are verified, and no other image is, though it has the signatures of the true one.
func wantSigned(t *testing.T, clone string, publish []string, image, chart string) {
	t.Helper()
	inClone(t, clone, "make", "-s", "bin/cosign")
	inClone(t, clone, "bin/cosign", "generate-key-pair")
	inClone(t, clone, append(publish, "SIGN=--key cosign.key --yes --allow-insecure-registry --use-signing-config=false --tlog-upload=false")...)
	verify := func(how string, reference string) (string, error) {
		command := exec.Command("bin/cosign", append(strings.Fields(how), "--key=cosign.pub", "--insecure-ignore-tlog",
			"--allow-insecure-registry", reference)...)
		command.Dir = clone
		out, err := command.CombinedOutput()
		return string(out), err
	}
	amd64 := inClone(t, clone, "go", "-C", "k8s/image", "tool", "crane", "digest", "--full-ref", "--platform", "linux/amd64", image)
	for reference, how := range map[string]string{image: "verify", chart: "verify", strings.TrimSpace(amd64): "verify-attestation --type=cyclonedx"} {
		if out, err := verify(how, reference); err != nil {
			t.Errorf("cosign %s %s: %v\n%s", how, reference, err, out)
		}
	}
	repository, digest, _ := strings.Cut(image, "@")
	host, path, _ := strings.Cut(repository, "/")
	api := "http://" + host + "/v2/" + path
	other := putChanged(t, api, digest, `"arm64"`, `"riscv64"`)
	var signatures struct{ Manifests []struct{ Digest string } }
	if err := json.Unmarshal(fetch(t, http.MethodGet, api+"/referrers/"+digest, "", ""), &signatures); err != nil || len(signatures.Manifests) == 0 {
		t.Fatalf("the image has %d signatures (%v)", len(signatures.Manifests), err)
	}
	for _, signature := range signatures.Manifests {
		putChanged(t, api, signature.Digest, digest, other)
	}
	if out, err := verify("verify", repository+"@"+other); err == nil || !strings.Contains(out, "does not match any digest") {
		t.Errorf("an image that is not what was signed is verified (%v):\n%s", err, out)
	}
}

// putChanged puts a copy of a manifest with another text in it into a repository, and returns the digest of the copy.
func putChanged(t *testing.T, api, digest, from, to string) string {
	t.Helper()
	manifest := strings.ReplaceAll(string(fetch(t, http.MethodGet, api+"/manifests/"+digest, "", "")), from, to)
	var of struct{ MediaType string }
	if err := json.Unmarshal([]byte(manifest), &of); err != nil {
		t.Fatal(err)
	}
	changed := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(manifest)))
	fetch(t, http.MethodPut, api+"/manifests/"+changed, of.MediaType, manifest)
	return changed
}

// fetch is what a registry answers, which must be a success.
func fetch(t *testing.T, method, url, mediaType, body string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", mediaType)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s: %s, %v\n%s", method, url, response.Status, err, answer)
	}
	return answer
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
