package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors/yaml"
)

var leftoverNames = []string{"#a.yaml#", "README.md", "a.yaml.bak", "a.yaml.orig", "a.yaml.rej", "a.yaml.swp", "a.yaml.tmp",
	"a.yaml~", "below/NOTES.MD", "below/a.yml~"}

// Whoever edits a file in the directory must not break its domain by what the editor leaves there.
func TestLeftoversBreakNothingAndAreNamed(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	write(t, config("b", 1), dir, "tilde~s.yaml")
	write(t, config("c", 1), dir, "old.bak", "c.yaml") // a directory is none
	for _, name := range leftoverNames {
		write(t, config("a", 2), dir, filepath.FromSlash(name))
	}
	must(t, os.Symlink("nowhere", filepath.Join(dir, "gone.yaml~")))
	c, problems, err := Load(dir, yaml.Options{})
	if err != nil || c == nil || fmt.Sprint(c.DomainNames(), c.BrokenNames()) != "[a b c] []" || len(c.Rules()) != 3 {
		t.Fatalf("got %+v, %v, want the domains a, b and c as their files have them", c, err)
	}
	told := make(map[string]string)
	for _, p := range problems {
		if !p.Warning {
			t.Errorf("%v is an error, want warnings only", p)
		}
		told[p.File] = p.Text
	}
	for _, name := range append([]string{"gone.yaml~"}, leftoverNames...) {
		if !strings.HasPrefix(told[name], "left out, as its name is that of a backup, a document or an editor") {
			t.Errorf("%s is not named: %q", name, told[name])
		}
	}
	if len(told) != len(leftoverNames)+1 {
		t.Errorf("named are %v, want only %v and gone.yaml~", told, leftoverNames)
	}
}
