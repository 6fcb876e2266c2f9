package charttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// release makes a release in an empty clone, and returns where its files are.
func release(t *testing.T, version string, arches []string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	for _, args := range [][]string{{"git", "clone", "-q", root, clone}, {"make", "-s", "-C", clone, "release", "VERSION=" + version, "ARCHES=" + strings.Join(arches, " ")}} {
		command := exec.Command(args[0], args[1:]...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return filepath.Join(clone, "dist", version)
}

// unpacked are the files of a tar archive, which may be compressed.
func unpacked(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	var in io.Reader = bytes.NewReader(data)
	if zipped, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		in = zipped
	}
	archive := tar.NewReader(in)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// Who has a release's files and no clone can check, start and install them. Two builds are the same to the byte, for which
// the short form has k8s/image.
func TestAReleaseCanBeInstalledAndMadeAgain(t *testing.T) {
	t.Parallel()
	arches := []string{"amd64", "arm64"}
	if testing.Short() {
		arches = []string{runtime.GOARCH}
	}
	c, err := weirChart()
	if err != nil {
		t.Fatal(err)
	}
	version := c.Metadata.Version
	dir := release(t, version, arches)
	if !testing.Short() {
		sums, others := readText(t, filepath.Join(dir, "SHA256SUMS")), readText(t, filepath.Join(release(t, version, arches), "SHA256SUMS"))
		if sums != others {
			t.Errorf("two builds of one commit differ:\n%s\n%s", sums, others)
		}
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 3+2*len(arches) {
		t.Errorf("the checksums: %v\n%s", err, out)
	}

	chart := filepath.Join(dir, "weir-"+version+".tgz")
	packed, err := Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Render(packed, Release{Name: "weir", Namespace: "limits"})
	if err != nil {
		t.Fatal(err)
	}
	deployment := decode(t, ofKind(r.Objects, "Deployment")[0]).(*appsv1.Deployment)
	image := deployment.Spec.Template.Spec.Containers[0].Image
	archive := unpacked(t, []byte(readText(t, filepath.Join(dir, "weir-image-"+version+".tar"))))
	if want := "weirproxy/weir:" + version; image != want || !bytes.Contains(archive["index.json"], []byte(`"`+want+`"`)) {
		t.Errorf("the chart installs %s, the image's archive says %s; want both to be %s", image, archive["index.json"], want)
	}

	building, _ := filepath.Abs(root)
	for _, arch := range arches {
		name := "weir-" + version + "-linux-" + arch
		files := unpacked(t, []byte(readText(t, filepath.Join(dir, name+".tar.gz"))))
		binary := files[name+"/weir"]
		for _, path := range []string{building, filepath.Dir(filepath.Dir(filepath.Dir(dir))), os.Getenv("HOME") + "/"} {
			for file, data := range files {
				if bytes.Contains(data, []byte(path)) {
					t.Errorf("%s of %s names %s, a path of the machine that built it", file, name, path)
				}
			}
		}
		if bill := readText(t, filepath.Join(dir, name+".cdx.json")); !strings.Contains(bill, fmt.Sprintf("%x", sha256.Sum256(binary))) {
			t.Errorf("the bill of materials %s.cdx.json does not say that it is of the binary of %s.tar.gz", name, name)
		}
		wantLinks(t, files)
		wantVersion(t, arch, version, binary)
	}
}

var relativeLink = regexp.MustCompile(`\]\(([^):#]+)[)#]`)

// wantLinks follows the relative links of the documents in an archive.
func wantLinks(t *testing.T, files map[string][]byte) {
	t.Helper()
	followed, there := 0, make(map[string]bool) // the files, and their directories
	for name := range files {
		for ; !there[name]; name = path.Dir(name) {
			there[name] = true
		}
	}
	for name, text := range files {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, link := range relativeLink.FindAllSubmatch(text, -1) {
			if target := path.Join(path.Dir(name), string(link[1])); !there[target] {
				t.Errorf("%s links to %s, which the archive lacks", name, target)
			}
			followed++
		}
	}
	if followed < 100 {
		t.Errorf("the archive's documents have %d links: this test reads them wrongly", followed)
	}
}

// wantVersion runs a binary, that for another machine by qemu where it is installed, and looks into it where it is not.
func wantVersion(t *testing.T, arch, version string, binary []byte) {
	t.Helper()
	weir := filepath.Join(t.TempDir(), "weir")
	if err := os.WriteFile(weir, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	run := []string{weir, "version"}
	if arch != runtime.GOARCH {
		qemu, err := exec.LookPath(map[string]string{"arm64": "qemu-aarch64-static", "amd64": "qemu-x86_64-static"}[arch])
		if err != nil {
			if f, err := elf.NewFile(bytes.NewReader(binary)); err != nil || f.Machine != elf.EM_AARCH64 && f.Machine != elf.EM_X86_64 {
				t.Errorf("the binary for %s is none: %v", arch, err)
			}
			t.Logf("no qemu for %s here: the binary was looked at, and not run", arch)
			return
		}
		run = append([]string{qemu}, run...)
	}
	if out, err := exec.Command(run[0], run[1:]...).CombinedOutput(); err != nil || !strings.Contains(string(out), version) {
		t.Errorf("weir version for %s: %v, %q; want %s", arch, err, out, version)
	}
}
