package charttest

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// release makes a release in an empty clone, and returns where its files are.
func release(t *testing.T, version, repository string, arches []string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	for _, args := range [][]string{{"git", "clone", "-q", root, clone},
		{"make", "-s", "-C", clone, "release", "VERSION=" + version, "REGISTRY=" + repository, "ARCHES=" + strings.Join(arches, " "),
			"MACS=" + strings.Join(arches[1:], " ")}} {
		command := exec.Command(args[0], args[1:]...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return filepath.Join(clone, "dist", version)
}

// unpacked is a folder with the files of a tar archive, which may be compressed.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	return dir
}

// Who has a release's files and no clone can check, start and install them. Two builds are the same to the byte, for which
// the short form has k8s/image.
func TestReleaseInstallsAndIsReproducible(t *testing.T) {
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
	// Not that of this repository: a release names it instead, in documents and chart.
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
	t.Cleanup(server.Close)
	repository := server.Listener.Addr().String() + "/weirproxy/weir-mirror"
	dir := release(t, version, repository, arches)
	if !testing.Short() {
		sums, other := readText(t, filepath.Join(dir, "SHA256SUMS")), release(t, version, repository, arches)
		if others := readText(t, filepath.Join(other, "SHA256SUMS")); sums != others {
			t.Errorf("two builds of one commit differ:\n%s\n%s", sums, others)
		}
		wantPublished(t, version, repository, dir, other)
	}
	elsewhere := exec.Command("make", "-s", "-C", filepath.Dir(filepath.Dir(dir)), "publish", "VERSION="+version, "REGISTRY="+repository+"-too", "SIGN=")
	if out, err := elsewhere.CombinedOutput(); err == nil || !strings.Contains(string(out), "not of "+repository+"-too: run make release") {
		t.Errorf("a chart that installs the image of %s is published elsewhere (%v):\n%s", repository, err, out)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 2+3*len(arches) {
		t.Errorf("the checksums: %v\n%s", err, out)
	}

	chart := filepath.Join(dir, "weir-"+version+".tgz")
	packed, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	r, err := renderChart(t, packed, "weir", nil)
	if err != nil {
		t.Fatal(err)
	}
	image := r.pod(t, "server").Containers[0].Image
	if r, err = renderChart(t, packed, "weir", valuesOf(t, "image: {tag: v1}")); err != nil {
		t.Fatal(err)
	}
	if tagged := r.pod(t, "server").Containers[0].Image; tagged != repository+":v1" {
		t.Errorf("with image.tag v1 the chart installs %s", tagged)
	}
	index := readText(t, filepath.Join(unpacked(t, filepath.Join(dir, "weir-image-"+version+".tar")), "index.json"))
	of, digest, _ := strings.Cut(image, "@")
	if of != repository || !strings.Contains(index, `"`+repository+":"+version+`"`) || !strings.Contains(index, `"`+digest+`"`) {
		t.Errorf("the chart installs %s, which is not what the image's archive has: %s", image, index)
	}

	chart = filepath.Join(unpacked(t, chart), "weir")
	wantRegistry(t, chart, repository)

	building, _ := filepath.Abs(root)
	for _, arch := range arches {
		name := "weir-" + version + "-linux-" + arch
		files := filepath.Join(unpacked(t, filepath.Join(dir, name+".tar.gz")), name)
		wantRegistry(t, files, repository)
		wantKustomizations(t, files, version)
		if out, err := exec.Command("diff", "-r", "-x", "README.md", chart, filepath.Join(files, "helm", "weir")).CombinedOutput(); err != nil {
			t.Errorf("the chart beside the binary is another than the release's: %v\n%s", err, out)
		}
		wantFiles(t, files, building, filepath.Dir(filepath.Dir(filepath.Dir(dir))), os.Getenv("HOME")+"/")
		binary := readText(t, filepath.Join(files, "weir"))
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(binary)))
		if bill := readText(t, filepath.Join(dir, name+".cdx.json")); !strings.Contains(bill, sum) {
			t.Errorf("the bill of materials %s.cdx.json does not say that it is of the binary of %s.tar.gz", name, name)
		}
		made, err := elf.NewFile(strings.NewReader(binary))
		if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; err != nil || made.Machine != want {
			t.Errorf("the binary for %s is none (%v)", arch, err)
		}
		if arch == runtime.GOARCH {
			if out, code := process.Command(t, nil, filepath.Join(files, "weir"), "version"); code != 0 || !strings.Contains(out, version) {
				t.Errorf("weir version: %d, %q; want %s", code, out, version)
			}
		}
	}
}

// wantRegistry wants the release's registry to be named below a folder, and not this repository's own.
func wantRegistry(t *testing.T, dir, repository string) {
	t.Helper()
	out, err := exec.Command("grep", "-rIhoE", `(ghcr\.io|127\.0\.0\.1:[0-9]+)/weirproxy/weir[-a-z]*`, dir).Output()
	if names := slices.Compact(strings.Fields(string(out))); err != nil || !slices.Equal(names, []string{repository}) {
		t.Errorf("%s names %v (%v), want %s", dir, names, err, repository)
	}
}

// wantKustomizations wants what k8s/README.md names of the chart to be in the archive, and what it names of the forge to be the
// version's.
func wantKustomizations(t *testing.T, dir, version string) {
	t.Helper()
	text := readText(t, filepath.Join(dir, "k8s", "README.md"))
	paths := regexp.MustCompile(`[ =](helm/weir[^ \n]*)`).FindAllStringSubmatch(text, -1)
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(dir, path[1])); err != nil {
			t.Errorf("k8s/README.md names %s, which the archive lacks", path[1])
		}
	}
	if bases := regexp.MustCompile(`github\.com/weirproxy/weir/k8s[^]]*`).FindAllString(text, -1); len(paths) < 3 || len(bases) == 0 ||
		slices.ContainsFunc(bases, func(base string) bool { return !strings.HasSuffix(base, "?ref=v"+version) }) {
		t.Errorf("k8s/README.md names the paths %v and the bases %v, want these of version %s", paths, bases, version)
	}
}

var relativeLink = regexp.MustCompile(`\]\(([^):#]+)[)#]`)

// wantFiles follows the relative links of an archive's documents, and wants no file to name a path of the machine that built
// it.
func wantFiles(t *testing.T, dir string, paths ...string) {
	t.Helper()
	followed := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := readText(t, name)
		for _, path := range paths {
			if strings.Contains(text, path) {
				t.Errorf("%s names %s, a path of the machine that built it", name, path)
			}
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		for _, link := range relativeLink.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), link[1])); err != nil {
				t.Errorf("%s links to %s, which the archive lacks", name, link[1])
			}
			followed++
		}
		return nil
	})
	if err != nil || followed < 100 {
		t.Errorf("the archive's documents have %d links (%v): this test reads them wrongly", followed, err)
	}
}
