package cookbook_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// document is the cookbook, seen from this package.
var document = filepath.Join(root, "k8s", "cookbook", "README.md")

// places are where in Envoy's configuration a block belongs, as the comment on its first line says.
var places = []string{"bootstrap", "connection manager", "rate limit filter", "virtual host", "route"}

// recipe is a section of the document that has blocks.
type recipe struct {
	name       string                    // its heading as an anchor; the tests' domain
	line       int                       // of its heading
	envoy      map[string]map[string]any // by place
	file       string                    // what weir reads, with the head that the document leaves out
	transcript []string                  // blocks of requests and what becomes of them
	prose      string                    // its text beside the blocks
}

// readRecipes takes the recipes out of a document. A block that no test could run is an error.
func readRecipes(t *testing.T, document string) (all []*recipe) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	var current *recipe
	for i := 0; i < len(lines); i++ {
		if heading, ok := strings.CutPrefix(lines[i], "## "); ok {
			current = &recipe{name: anchor(heading), line: i + 1, envoy: make(map[string]map[string]any)}
			continue
		}
		kind, fence := strings.CutPrefix(lines[i], "```")
		if !fence {
			if current != nil {
				current.prose += lines[i] + "\n"
			}
			continue
		}
		begin := i + 1
		for i++; lines[i] != "```"; i++ {
		}
		if current == nil {
			t.Fatalf("%s:%d: a block before the first recipe", document, begin)
		}
		if len(all) == 0 || all[len(all)-1] != current {
			all = append(all, current)
		}
		if err := current.add(kind, strings.Join(lines[begin:i], "\n")+"\n"); err != nil {
			t.Fatalf("%s:%d: %v", document, begin, err)
		}
	}
	return all
}

func (r *recipe) add(kind, block string) error {
	switch {
	case kind == "text":
		r.transcript = append(r.transcript, block)
		return nil
	case kind != "yaml":
		return fmt.Errorf("a block of %q: the tests run yaml and text", kind)
	case strings.HasPrefix(block, "- "):
		if r.file != "" {
			return fmt.Errorf("a second descriptor file")
		}
		r.file = block
		return nil
	}
	for _, place := range places {
		if !strings.HasPrefix(block, "# "+place+"\n") {
			continue
		}
		tree := make(map[string]any)
		if err := yaml.Unmarshal([]byte(block), &tree); err != nil {
			return err
		}
		r.envoy[place] = tree
		return nil
	}
	return fmt.Errorf("a block that neither begins with - nor says on its first line where in Envoy it belongs: %q", places)
}

// anchor is how a link names a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
