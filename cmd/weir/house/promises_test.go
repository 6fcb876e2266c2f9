package house_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// proof is how PROMISES.md names what proves a promise: a test, behind its package unless that is the one before.
var proof = regexp.MustCompile("`(?:((?:[a-z0-9]+/)*[a-z0-9]+) )?((?:Test|Fuzz)\\w+)`")

// mutants is how a row names the faults that its proof was seen to notice, in its third column.
var mutants = regexp.MustCompile(`(?m)^\|[^|]*\|[^|]*\| ([a-z0-9-]+(?:, [a-z0-9-]+)*) \|`)

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
	room := ""
	for _, p := range proofs {
		room = cmp.Or(p[1], room)
		name := p[2]
		if _, read := sources[room]; !read {
			sources[room] = readSources(t, filepath.Join(root, filepath.FromSlash(room)))
		}
		if !strings.Contains(sources[room], "func "+name+"(") {
			t.Errorf("PROMISES.md says that %s in %s proves a promise, and there is no such test", name, room)
		}
	}
	named := make(map[string]bool)
	for _, row := range mutants.FindAllStringSubmatch(string(document), -1) {
		for _, name := range strings.Split(row[1], ", ") {
			named[name] = true
			if _, err := os.Stat(filepath.Join(root, ".ci", "mutants", name+".diff")); err != nil {
				t.Errorf("PROMISES.md names a fault that is not there: %v", err)
			}
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

// drawn is how server/README.md draws a step: a file, and functions in it.
var drawn = regexp.MustCompile(`([a-z]+(?:/[a-z]+)*\.go) +((?:\w+, )*\w+)`)

func TestTheWayOfARequestIsAsDrawn(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	document, err := os.ReadFile(filepath.Join(root, "server", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps := drawn.FindAllStringSubmatch(string(document), -1)
	if len(steps) < 10 {
		t.Fatalf("server/README.md draws %d steps: this test reads it wrongly", len(steps))
	}
	for _, step := range steps {
		source, err := os.ReadFile(filepath.Join(root, "server", step[1]))
		if err != nil {
			source, err = os.ReadFile(filepath.Join(root, "backend", step[1]))
		}
		for _, name := range strings.Split(step[2], ", ") {
			if err != nil || !strings.Contains(string(source), name+"(") {
				t.Errorf("server/README.md draws %s in %s, which is not there (%v)", name, step[1], err)
			}
		}
	}
}
