package file

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// asRatelimit sets what envoyproxy/ratelimit does with RUNTIME_WATCH_ROOT=true.
func asRatelimit(d *Dir) { d.Prefix, d.MayBeEmpty = "config.", true }

func TestOnlyFilesOfThePrefixAreRead(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"config.yaml", "config.d/y.yaml", "config/x.yaml", "config/below/z", // these
		"config2.yaml", "conf/a.yaml", "configs/a.yaml", "other/config.yaml", "a.config.yaml", ".config.yaml",
		"config/.x.yaml", "config.d/.below/y.yaml", "CONFIG.yaml",
	} {
		write(t, config("d", 1), root, filepath.FromSlash(name))
	}
	must(t, os.Symlink("nowhere", filepath.Join(root, "broken"))) // nobody asks for it
	d := New(root, yaml.Options{}, nil)
	asRatelimit(d)
	s := d.scan()
	var got []string
	for _, f := range s.files {
		got = append(got, filepath.ToSlash(f.name))
	}
	slices.Sort(got)
	want := []string{"config.d/y.yaml", "config.yaml", "config/below/z", "config/x.yaml"}
	if !slices.Equal(got, want) || len(s.problems) != 0 || s.err != nil {
		t.Errorf("read are %q (%v, %v), want %q", got, s.problems, s.err, want)
	}
}

func TestAFileOfTheNameOfThePrefixIsNoConfiguration(t *testing.T) {
	root := t.TempDir()
	write(t, config("a", 1), root, "config")
	d := New(root, yaml.Options{}, nil)
	asRatelimit(d)
	if s := d.scan(); !s.empty {
		t.Errorf("got %+v, want an empty directory", s)
	}
}

func TestAPrefixMayNameDirectoriesBelow(t *testing.T) {
	root := t.TempDir()
	write(t, config("a", 1), root, "edge", "config", "a.yaml")
	write(t, config("b", 1), root, "edge", "other", "b.yaml")
	d := New(root, yaml.Options{}, nil)
	d.Prefix = "edge.config."
	if s := d.scan(); len(s.files) != 1 || s.files[0].name != filepath.Join("edge", "config", "a.yaml") {
		t.Errorf("read is %v, want edge/config/a.yaml", s.files)
	}
}

// A root is swapped as a whole, as Lyft's runtime is: RUNTIME_ROOT is the link, the directory that is read lies below it.
func TestASwappedRootIsFollowed(t *testing.T) {
	versions := t.TempDir()
	current := filepath.Join(versions, "current")
	swap := func(version string, rules int) {
		write(t, config("shop", rules), versions, version, "ratelimit", "config", "shop.yaml")
		must(t, os.Symlink(version, current+"_next"))
		must(t, os.Rename(current+"_next", current))
	}
	swap("1", 1)
	watchAs(t, filepath.Join(current, "ratelimit"), asRatelimit, func(t *testing.T, w *watched) {
		w.expect(1, 1, "the first version")
		swap("2", 2)
		w.pass(promised)
		w.expect(2, 2, "the link was swapped")
		write(t, config("shop", 3), versions, "2", "ratelimit", "config", "shop.yaml")
		w.pass(promised)
		w.expect(3, 3, "a file was written, without a swap")
		write(t, config("bank", 3), versions, "2", "ratelimit", "config.bank.yaml")
		w.pass(promised)
		w.expect(4, 6, "a file was added beside the directory")
		write(t, config("news", 3), versions, "2", "ratelimit", "other.yaml")
		w.pass(promised)
		w.expect(4, 6, "a file was added that is none of the configuration")
		w.expectLogged("level=ERROR", 0)
	})
}

func TestAConfigMapBelowTheRootIsReadOnceAndFollowed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "config")
	mount(t, dir, "1", config("shop", 1))
	watchAs(t, root, asRatelimit, func(t *testing.T, w *watched) {
		w.expect(1, 1, "hidden directories are left out: the domain would be there twice")
		mount(t, dir, "2", config("shop", 2))
		w.pass(promised)
		w.expect(2, 2, "the link was swapped")
		w.expectLogged("level=ERROR", 0)
	})
}

func TestNoFilesAreAConfigurationIfTheyMayBe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config")
	watchAs(t, dir, func(d *Dir) { d.MayBeEmpty = true }, func(t *testing.T, w *watched) {
		w.expect(1, 0, "a missing directory is a configuration at the start: every request is OK")
		w.expectLogged("level=WARN", 1)
		w.expectLogged("so that every request is OK", 1)
		w.pass(time.Minute)
		w.expect(1, 0, "nothing has changed")

		must(t, os.Mkdir(dir, 0o755))
		w.pass(promised)
		w.expect(2, 0, "an empty directory is one as well")
		if got := w.applied[1].Match("a", descriptors.Descriptor{{Key: "k0"}}).Found; got != descriptors.UnknownDomain {
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
		if got := w.applied[4].Match("a", descriptors.Descriptor{{Key: "k0"}}).Found; got != descriptors.BrokenDomain {
			t.Errorf("a request of a domain that never was good finds %v, want that nobody can decide it", got)
		}
	})
}
