package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

func TestSameBinariesMakeTheSameArchive(t *testing.T) {
	dist, bin, arches := t.TempDir(), t.TempDir(), []string{"amd64", "arm64"}
	if testing.Short() {
		arches = arches[:1]
	}
	for _, arch := range arches { // for which the weir under test stands
		place := filepath.Join(bin, "linux-"+arch)
		if err := errors.Join(os.Mkdir(place, 0o755), os.Symlink(process.Weir(t), filepath.Join(place, "weir"))); err != nil {
			t.Fatal(err)
		}
	}
	var archives [2][]byte
	for i := range archives {
		if err := run("v0", bin, dist, "weir", arches); err != nil {
			t.Fatal(err)
		}
		archives[i] = read(t, filepath.Join(dist, "weir-image.tar"))
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same binaries differ: nobody could check that an image is what the source gives")
	}
	layout, err := layout.ImageIndexFromPath(untar(t, archives[0]))
	if err == nil {
		err = validate.Index(layout)
	}
	if err != nil {
		t.Fatalf("the archive is not a valid OCI layout: %v", err)
	}
	indexes, err := partial.FindIndexes(layout, match.Name("weir:v0"))
	if err != nil || len(indexes) != 1 {
		t.Fatalf("the archive has %d images of the name weir:v0 (%v), want one", len(indexes), err)
	}
	for _, arch := range arches {
		images, err := partial.FindImages(indexes[0], match.Platforms(v1.Platform{OS: "linux", Architecture: arch}))
		if err != nil || len(images) != 1 {
			t.Fatalf("the index has %d images for %s (%v), want one", len(images), arch, err)
		}
		config, err := images[0].ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != "65532:65532" {
			t.Errorf("the image runs as %q, want a number that is not root's, as runAsNonRoot asks for", config.Config.User)
		}
		const archive = "linux-${TARGETARCH}.tar"
		fromDockerfile(t, config, "dist/"+archive)
		files := read(t, filepath.Join(dist, strings.ReplaceAll(archive, "${TARGETARCH}", arch)))
		sum, _, err := v1.SHA256(bytes.NewReader(files))
		if layers := config.RootFS.DiffIDs; err != nil || !slices.Equal(layers, []v1.Hash{sum}) {
			t.Errorf("the image has the layers %v, want the files that the Dockerfile adds alone, %v (%v)", layers, sum, err)
		}
		inImage(t, files)
	}
}

// inImage runs what the image holds, and wants the programs of envoyproxy/ratelimit to be there under their names.
func inImage(t *testing.T, files []byte) {
	t.Helper()
	root := untar(t, files)
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
	bill := read(t, filepath.Join(root, "usr/share/weir/sbom.cdx.json"))
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

// untar is a folder with the files of a tar archive.
func untar(t *testing.T, archive []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	extract := exec.Command("tar", "-x", "-C", dir)
	extract.Stdin = bytes.NewReader(archive)
	if out, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	return dir
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// fromDockerfile wants the Dockerfile to make the image of make image: the files of an archive, and the same user, ports,
// variables and command.
func fromDockerfile(t *testing.T, want *v1.ConfigFile, archive string) {
	t.Helper()
	list := func(words []string) string { // without a shell, which the image has not
		return `["` + strings.Join(words, `", "`) + `"]`
	}
	c := want.Config
	made := strings.Join([]string{"FROM scratch", "ARG TARGETARCH", "ADD " + archive + " /", "ENV " + strings.Join(c.Env, " "),
		"WORKDIR " + c.WorkingDir, "USER " + c.User, "EXPOSE " + strings.Join(ports[:], " "),
		"ENTRYPOINT " + list(c.Entrypoint), "CMD " + list(c.Cmd), ""}, "\n")
	is := regexp.MustCompile(`(?m)^(#.*)?\n`).ReplaceAllString(string(read(t, "../../Dockerfile")), "")
	if is != made {
		t.Errorf("the Dockerfile says\n%s\nand make image makes an image of\n%s", is, made)
	}
}
