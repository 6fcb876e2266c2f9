package house_test

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// proof is how PROMISES.md names what proves a promise: a test, behind its package unless that is the one before.
var proof = regexp.MustCompile("`(?:((?:[a-z0-9]+/)*[a-z0-9]+) )?((?:Test|Fuzz)\\w+)`")

// mutant is how a file of .ci/mutants names the test that notices its fault: in a module of its own or not, by the part
// of its -run before the first slash.
var mutant = regexp.MustCompile(`(?m)^Promise: .+\nProof: go test (?:-C (\S+) )?.*?(?: \./(\S+)| \.) -run '?([^'/\n]+)`)

func TestEachPromiseHasItsProof(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	names := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	known := make(map[string][]string) // by package, its tests
	tests := func(room string) []string {
		if _, read := known[room]; !read {
			known[room] = nil
			for _, m := range names.FindAllStringSubmatch(readSources(t, filepath.Join(root, filepath.FromSlash(room))), -1) {
				known[room] = append(known[room], m[1])
			}
		}
		return known[room]
	}
	proofs := proof.FindAllStringSubmatch(readText(t, "PROMISES.md"), -1)
	if len(proofs) < 50 {
		t.Fatalf("PROMISES.md names %d proofs: this test reads it wrongly", len(proofs))
	}
	room := ""
	for _, p := range proofs {
		room = cmp.Or(p[1], room)
		if !slices.Contains(tests(room), p[2]) {
			t.Errorf("PROMISES.md says that %s in %s proves a promise, and there is no such test", p[2], room)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, ".ci", "mutants", "*.diff"))
	if err != nil || len(files) < 50 {
		t.Fatalf("found %d faults, %v: this test looks in the wrong place", len(files), err)
	}
	for _, file := range files {
		m := mutant.FindStringSubmatch(readText(t, file))
		if m == nil {
			t.Errorf("%s has no lines `Promise: …` and `Proof: go test … -run …`", file)
			continue
		}
		if !slices.ContainsFunc(tests(path.Join(m[1], m[2])), regexp.MustCompile(m[3]).MatchString) {
			t.Errorf("the proof of %s runs no test: nothing would notice this fault", file)
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
		all.WriteString(readText(t, file))
	}
	return all.String()
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
