package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

func TestTheSameBinariesGiveTheSameArchive(t *testing.T) {
	dir, bin, arches := t.TempDir(), t.TempDir(), []string{"amd64", "arm64"}
	if testing.Short() {
		arches = arches[:1]
	}
	for _, arch := range arches { // for which the weir under test stands
		place := filepath.Join(bin, "linux-"+arch)
		if err := errors.Join(os.Mkdir(place, 0o755), os.Symlink(process.Weir(t), filepath.Join(place, "weir"))); err != nil {
			t.Fatal(err)
		}
	}
	var sums [2][sha256.Size]byte
	for i, name := range []string{"a.tar", "b.tar"} {
		if err := run("v0", bin, filepath.Join(dir, name), "weir", dir, arches); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(data)
	}
	if sums[0] != sums[1] {
		t.Error("two archives of the same binaries differ: nobody could check that an image is what the source gives")
	}
	index := unpacked(t, filepath.Join(dir, "a.tar"))
	if err := validate.Index(index); err != nil {
		t.Fatalf("the archive is not a valid OCI layout: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != len(arches) {
		t.Fatalf("the index has %v (%v), want the platforms %q", manifest, err, arches)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("the image runs as %q, want a number that is not root's, as runAsNonRoot asks for", config.Config.User)
	}
	files := layer(t, img)
	inImage(t, files)
	fromDockerfile(t, config, files, dir)
}

// inImage runs what the image holds, and wants the programs of envoyproxy/ratelimit to be there under their names.
func inImage(t *testing.T, files []byte) {
	t.Helper()
	root := t.TempDir()
	untar(t, bytes.NewReader(files), root)
	binary := filepath.Join(root, "bin", "weir")
	if out, code := process.Command(t, nil, binary, "version"); code != 0 {
		t.Errorf("/bin/weir version ends with %d, %q", code, out)
	}
	weir, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ratelimit", "ratelimit_client", "ratelimit_config_check"} {
		other, err := os.Stat(filepath.Join(root, "bin", name))
		if err != nil || !os.SameFile(weir, other) {
			t.Errorf("/bin/%s is not weir (%v): whoever replaces envoyproxy/ratelimit starts it by that name", name, err)
		}
	}
	bill, err := os.ReadFile(filepath.Join(root, "usr/share/weir/sbom.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	linked, err := buildinfo.ReadFile(binary)
	if err != nil || len(linked.Deps) < 10 {
		t.Fatalf("the Go linker has written %v into weir, %v: this test does not know its format any more", linked, err)
	}
	for _, m := range linked.Deps {
		if m.Replace == nil && !strings.Contains(string(bill), `"pkg:golang/`+m.Path+"@"+m.Version+`"`) {
			t.Errorf("the bill of materials lacks %s %s, which weir was linked from:\n%s", m.Path, m.Version, bill)
		}
	}
}

func unpacked(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	untar(t, f, dir)
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func untar(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	extract := exec.Command("tar", "-x", "-C", dir)
	extract.Stdin = from
	if out, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
}

// fromDockerfile wants the Dockerfile to make the image of make image: the same files, byte for byte, and the same user,
// ports, variables and command. dist is where the archives are that it adds.
func fromDockerfile(t *testing.T, want *v1.ConfigFile, layer []byte, dist string) {
	t.Helper()
	const archive = "linux-${TARGETARCH}.tar"
	list := func(words []string) string { // without a shell, which the image has not
		return `["` + strings.Join(words, `", "`) + `"]`
	}
	c := want.Config
	made := strings.Join([]string{"FROM scratch", "ARG TARGETARCH", "ADD dist/" + archive + " /", "ENV " + strings.Join(c.Env, " "),
		"WORKDIR " + c.WorkingDir, "USER " + c.User, "EXPOSE " + strings.Join(ports[:], " "),
		"ENTRYPOINT " + list(c.Entrypoint), "CMD " + list(c.Cmd), ""}, "\n")
	text, err := os.ReadFile("../../Dockerfile")
	if is := regexp.MustCompile(`(?m)^(#.*)?\n`).ReplaceAllString(string(text), ""); err != nil || is != made {
		t.Errorf("the Dockerfile says (%v)\n%s\nand make image makes an image of\n%s", err, is, made)
	}
	files, err := os.ReadFile(filepath.Join(dist, strings.ReplaceAll(archive, "${TARGETARCH}", want.Architecture)))
	if err != nil || !bytes.Equal(files, layer) {
		t.Errorf("the files that the Dockerfile adds are not the layer of the image that make image builds (%v)", err)
	}
}

// layer returns the files of an image that has one layer.
func layer(t *testing.T, img v1.Image) []byte {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
