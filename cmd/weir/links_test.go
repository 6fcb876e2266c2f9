package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is all that is below the root.
var repository = os.DirFS("../..")

// TestDocumentsLeadSomewhere follows every relative link of every document, to the file and to the heading in it.
func TestDocumentsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	documents := readDocuments(t)
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		for _, l := range proseOf(documents[name]) {
			for _, found := range link.FindAllStringSubmatch(l.text, -1) {
				if strings.Contains(found[1], "://") {
					continue
				}
				file, anchor, _ := strings.Cut(found[1], "#")
				target := name
				if file != "" {
					target = path.Join(path.Dir(name), file)
				}
				if _, err := fs.Stat(repository, target); err != nil {
					t.Errorf("%s:%d links to %s, which is not there: %v", name, l.number, found[1], err)
				} else if anchor != "" && !slices.Contains(anchorsOf(documents[target]), anchor) {
					t.Errorf("%s:%d links to %s, but the headings of %s are %q", name, l.number, found[1], target,
						anchorsOf(documents[target]))
				}
			}
		}
	}
}

// proseLine is a line of a document that is not code.
type proseLine struct {
	number int // from 1
	text   string
}

// proseOf returns the lines of a document outside its blocks of code, which are fenced, or follow an empty line and are
// indented.
func proseOf(text string) (prose []proseLine) {
	fenced, mayIndent := false, true
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced, mayIndent && strings.HasPrefix(line, "    "):
		default:
			prose = append(prose, proseLine{i + 1, line})
			mayIndent = line == ""
		}
	}
	return prose
}

var (
	headingMarks = regexp.MustCompile(`^#+ +`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchorsOf returns the anchors that GitHub gives to the headings of a document.
func anchorsOf(text string) (anchors []string) {
	seen := make(map[string]int)
	for _, l := range proseOf(text) {
		if !headingMarks.MatchString(l.text) {
			continue
		}
		heading := strings.ToLower(headingMarks.ReplaceAllString(l.text, ""))
		anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(heading, ""), " ", "-")
		n := seen[anchor]
		if seen[anchor]++; n > 0 {
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}

// readDocuments returns the text of every document of the repository, by its path. What make builds and installs is left
// out.
func readDocuments(t *testing.T) map[string]string {
	t.Helper()
	documents := make(map[string]string)
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && strings.HasPrefix(name, ".") || name == "bin" || name == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".md") {
			text, err := fs.ReadFile(repository, name)
			documents[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil || len(documents) < 10 {
		t.Fatalf("found %d documents, want 10 or more: %v", len(documents), err)
	}
	return documents
}
