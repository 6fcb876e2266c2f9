package file

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

func TestOnlyFilesOfThePrefixAreRead(t *testing.T) {
	for _, tc := range []struct{ prefix, read, others string }{
		{"config.", "config.d/y.yaml config.yaml config/below/z config/x.yaml",
			"README.md config2.yaml conf/a.yaml configs/a.yaml other/config.yaml a.config.yaml .config.yaml config/.x.yaml " +
				"config.d/.below/y.yaml CONFIG.yaml"},
		{"edge.config.", "edge/config/a.yaml", "edge/other/b.yaml"},
		{"config.", "", "config"}, // a file of the prefix's name
	} {
		root := t.TempDir()
		for _, name := range strings.Fields(tc.read + " " + tc.others) {
			write(t, config("d", 1), root, filepath.FromSlash(name))
		}
		must(t, os.Symlink("nowhere", filepath.Join(root, "broken"))) // nobody asks for it
		d := New(root, yaml.Options{}, nil)
		d.Prefix, d.MayBeEmpty = tc.prefix, true
		s := d.scan()
		var got []string
		for _, f := range s.files {
			got = append(got, filepath.ToSlash(f.name))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != tc.read || len(s.problems) != 0 || (s.err != nil) != s.empty || s.empty != (tc.read == "") {
			t.Errorf("prefix %s: read are %q (%v, %v), want %q", tc.prefix, got, s.problems, s.err, tc.read)
		}
	}
}

func TestNoFilesAreAConfigurationIfTheyMayBe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config")
	watch(t, dir, func(d *Dir) { d.MayBeEmpty = true }, func(t *testing.T, w *watched) {
		found := func() descriptors.Found {
			applied, _, _ := w.Got()
			return applied[len(applied)-1].Match("a", descriptors.Descriptor{{Key: "k0"}}).Found
		}
		w.expect(1, 0, "a missing directory is a configuration at the start: every request is OK")
		w.expectLogged("level=WARN", 1)
		w.expectLogged("so that every request is OK", 1)
		w.pass(time.Minute)
		w.expect(1, 0, "nothing has changed")

		must(t, os.Mkdir(dir, 0o755))
		w.pass(promised)
		w.expect(2, 0, "an empty directory is one as well")
		if got := found(); got != descriptors.UnknownDomain {
			t.Errorf("a request finds %v, want that its domain is unknown, which is OK", got)
		}

		write(t, config("a", 1), dir, "a.yaml")
		w.pass(promised)
		w.expect(3, 1, "a file has appeared")

		must(t, os.Rename(dir, dir+"-away"))
		w.pass(time.Minute)
		w.expect(3, 1, "a directory that goes missing keeps what was in force")
		w.expectErrors("does not exist")

		must(t, os.Rename(dir+"-away", dir))
		must(t, os.Remove(filepath.Join(dir, "a.yaml")))
		w.pass(promised)
		w.expect(4, 0, "the last file was removed")

		write(t, "domain: a\nunknown: key\n", dir, "a.yaml")
		w.pass(promised)
		w.expect(5, 0, "a bad file")
		if got := found(); got != descriptors.BrokenDomain {
			t.Errorf("a request of a domain that never was good finds %v, want that nobody can decide it", got)
		}
	})
}
