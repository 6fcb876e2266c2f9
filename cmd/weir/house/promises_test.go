package house_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// proof is how PROMISES.md names what proves a promise: a package and a test in it.
var proof = regexp.MustCompile("`((?:[a-z0-9]+/)*[a-z0-9]+) (Test\\w+)")

// mutant is how it names a fault that the proof was seen to notice.
var mutant = regexp.MustCompile(`\[([a-z0-9-]+)\]\(([./]+/\.ci/mutants/[a-z0-9-]+\.diff)\)`)

func TestEachPromiseHasItsProof(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	document, err := os.ReadFile("PROMISES.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := make(map[string]string) // by package, of all its Go files
	proofs := proof.FindAllStringSubmatch(string(document), -1)
	if len(proofs) < 50 {
		t.Fatalf("PROMISES.md names %d proofs: this test reads it wrongly", len(proofs))
	}
	for _, p := range proofs {
		room, name := p[1], p[2]
		if _, read := sources[room]; !read {
			sources[room] = readSources(t, filepath.Join(root, filepath.FromSlash(room)))
		}
		if !strings.Contains(sources[room], "func "+name+"(") {
			t.Errorf("PROMISES.md says that %s in %s proves a promise, and there is no such test", name, room)
		}
	}
	named := make(map[string]bool)
	for _, m := range mutant.FindAllStringSubmatch(string(document), -1) {
		named[m[1]] = true
		if _, err := os.Stat(filepath.FromSlash(m[2])); err != nil || !strings.HasSuffix(m[2], "/"+m[1]+".diff") {
			t.Errorf("PROMISES.md links %s to %s: %v", m[1], m[2], err)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, ".ci", "mutants", "*.diff"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".diff"); !named[name] {
			t.Errorf("the mutant %s stands in no row of PROMISES.md: which promise does it break?", name)
		}
	}
}

// readSources returns all Go files of a folder as one text.
func readSources(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
