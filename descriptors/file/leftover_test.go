package file

import (
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
	for _, name := range []string{"", "config."} {
		root, prefix := dir, name
		if prefix != "" {
			root = t.TempDir()
			must(t, os.Rename(dir, filepath.Join(root, "config")))
			write(t, "no prefix", root, "README.md")
		}
		d := New(root, yaml.Options{}, nil)
		d.Prefix = prefix
		s := d.scan()
		files, problems := s.read(root)
		r := d.update(s, files, problems)
		if r.Config == nil || len(r.Kept)+len(r.Unknown) > 0 || strings.Join(r.Config.DomainNames(), " ") != "a b c" ||
			len(r.Config.Rules()) != 3 || len(r.Config.BrokenNames()) > 0 {
			t.Fatalf("prefix %q: got %+v, want the domains a, b and c as their files have them", prefix, r)
		}
		told := make(map[string]string)
		for _, p := range r.Problems {
			if !p.Warning {
				t.Errorf("prefix %q: %v is an error, want warnings only", prefix, p)
			}
			told[strings.TrimPrefix(p.File, "config/")] = p.Text
		}
		for _, name := range append([]string{"gone.yaml~"}, leftoverNames...) {
			if !strings.HasPrefix(told[name], "left out, as its name is that of a backup, a document or an editor") {
				t.Errorf("prefix %q: %s is not named: %q", prefix, name, told[name])
			}
		}
		if len(told) != len(leftoverNames)+1 {
			t.Errorf("prefix %q: named are %v, want only %v and gone.yaml~", prefix, told, leftoverNames)
		}
	}
}
