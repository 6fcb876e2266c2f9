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

// repository has all files below the root.
var repository = os.DirFS("../..")

var (
	code        = regexp.MustCompile("(?m)^```(?s:.*?)^```$|^\n(?:    .*\n)+") // fenced, or indented after an empty line
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading     = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// prose returns a document in which only the line ends of code blocks remain.
func prose(text string) string {
	return code.ReplaceAllStringFunc(text, func(block string) string { return strings.Repeat("\n", strings.Count(block, "\n")) })
}

// TestDocumentLinksResolve follows every relative link of every document, to the file and to the heading in it.
func TestDocumentLinksResolve(t *testing.T) {
	documents := readDocuments(t)
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		for i, line := range strings.Split(prose(documents[name]), "\n") {
			for _, found := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(found[1], "://") {
					continue
				}
				file, anchor, _ := strings.Cut(found[1], "#")
				target := name
				if file != "" {
					target = path.Join(path.Dir(name), file)
				}
				if _, err := fs.Stat(repository, target); err != nil {
					t.Errorf("%s:%d links to %s, which is not there: %v", name, i+1, found[1], err)
				} else if anchor != "" && !slices.Contains(anchorsOf(documents[target]), anchor) {
					t.Errorf("%s:%d links to %s, but the headings of %s are %q", name, i+1, found[1], target,
						anchorsOf(documents[target]))
				}
			}
		}
	}
}

// anchorsOf returns the anchors that GitHub gives to the headings of a document.
func anchorsOf(text string) (anchors []string) {
	seen := make(map[string]int)
	for _, found := range heading.FindAllStringSubmatch(prose(text), -1) {
		anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")
		n := seen[anchor]
		if seen[anchor]++; n > 0 {
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}

// readDocuments returns the text of every document of the repository by path, without the files that make builds or
// installs.
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
