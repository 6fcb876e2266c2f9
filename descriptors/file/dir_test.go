package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// config is a file of one domain with rules of the given number, so that its size tells versions apart.
func config(domain string, rules int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", domain)
	for i := range rules {
		fmt.Fprintf(&b, "- {key: k%d, rate_limit: {unlimited: true}}\n", i)
	}
	return b.String()
}

func write(t *testing.T, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// watched is a Dir that runs on the clock of a synctest bubble, and what came of it.
type watched struct {
	fixture.Sink
	t *testing.T
}

// watch runs a Dir on dir, which set may change before, while test runs.
func watch(t *testing.T, dir string, set func(*Dir), test func(t *testing.T, w *watched)) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t}
		d := New(dir, yaml.Options{}, slog.New(slog.NewTextHandler(w, nil)))
		d.OnError = w.OnError
		if set != nil {
			set(d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx, w.Apply) }()
		synctest.Wait()
		time.Sleep(interval / 2) // stay clear of the moments of the looks
		test(t, w)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v, want the context's error", err)
		}
	})
}

// pass lets time go by, and the source do what it does in it.
func (w *watched) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect fails unless a number of configurations was applied, the last one with that many rules.
func (w *watched) expect(applied, rules int, why string) {
	w.t.Helper()
	if n, last := w.inForce(); n != applied || last != rules {
		_, _, log := w.Got()
		w.t.Fatalf("%s: %d configurations were applied, the last with %d rules; want %d and %d\n%s", why, n, last, applied, rules,
			log)
	}
}

// inForce returns how many configurations were applied, and how many rules the last one has.
func (w *watched) inForce() (n, rules int) {
	applied, _, _ := w.Got()
	if len(applied) == 0 {
		return 0, 0
	}
	return len(applied), len(applied[len(applied)-1].Rules())
}

// expectLogged fails unless a text was logged that many times.
func (w *watched) expectLogged(text string, times int) {
	w.t.Helper()
	if got := w.Logged(text); got != times {
		_, _, log := w.Got()
		w.t.Fatalf("%q was logged %d times, want %d\n%s", text, got, times, log)
	}
}

// expectErrors fails unless OnError was told of these, and of no more.
func (w *watched) expectErrors(texts ...string) {
	w.t.Helper()
	_, errs, _ := w.Got()
	if !slices.EqualFunc(errs, texts, func(err error, text string) bool { return strings.Contains(err.Error(), text) }) {
		w.t.Fatalf("OnError was told %v, want errors …%q…", errs, texts)
	}
}

const promised = 2 * time.Second // a change is in force after this

func TestChangeAppliesWithinTwoSeconds(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	watch(t, dir, nil, func(t *testing.T, w *watched) {
		w.expect(1, 1, "the first load waits for nothing")
		w.pass(time.Minute)
		w.expect(1, 1, "nothing has changed")

		write(t, config("a", 2), dir, "a.yaml")
		w.pass(promised)
		w.expect(2, 2, "a file has changed")

		write(t, config("b", 3), dir, "below", "b")
		w.pass(promised)
		w.expect(3, 5, "a file was added in a new directory")

		must(t, os.Remove(filepath.Join(dir, "a.yaml")))
		w.pass(promised)
		w.expect(4, 3, "a file was deleted")

		must(t, os.Rename(filepath.Join(dir, "below"), filepath.Join(dir, "other")))
		w.pass(promised)
		w.expect(5, 3, "a directory was renamed")

		later := time.Now().Add(time.Hour)
		must(t, os.Chtimes(filepath.Join(dir, "other", "b"), later, later))
		w.pass(promised)
		w.expect(6, 3, "only a file's time has changed")

		write(t, config("a", 9), dir, ".hidden")
		w.pass(promised)
		w.expect(6, 3, "hidden names are left out")
		w.expectLogged("level=INFO", 6)
		w.expectLogged("level=ERROR", 0)
	})
}

func TestBadFileBlocksNoOtherDomain(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	write(t, config("b", 1), dir, "b.yaml")
	write(t, config("c", 4), dir, "c", "c.yaml")
	watch(t, dir, nil, func(t *testing.T, w *watched) {
		w.expect(1, 6, "all are good")
		write(t, "descriptors: ][", dir, "a.yaml")
		write(t, config("b", 2), dir, "b.yaml")
		w.pass(time.Minute)
		w.expect(2, 7, "a keeps its rule, b has a new one")
		w.expectLogged("configuration loaded only in part", 1)
		w.expectLogged(`domains="keep their last valid version: a"`, 1)
		w.expectErrors("a.yaml:1: ")
		w.expectLogged("configuration problem", 1)

		must(t, os.Rename(filepath.Join(dir, "c", "c.yaml"), filepath.Join(dir, ".c")))
		must(t, os.Symlink("nowhere", filepath.Join(dir, "b2.yaml")))
		w.pass(promised)
		w.expect(3, 3, "c has gone, and takes its rules with it")

		must(t, os.Remove(filepath.Join(dir, "a.yaml")))
		must(t, os.Remove(filepath.Join(dir, "b2.yaml")))
		w.pass(promised)
		w.expect(4, 2, "a is deleted")
		must(t, os.Remove(filepath.Join(dir, "b.yaml")))
		must(t, os.Remove(filepath.Join(dir, "c")))
		w.pass(promised)
		w.expect(4, 2, "an empty directory keeps what there was")
	})
}

func TestRefusedConfigurationIsTriedOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	write(t, config("b", 1), dir, "b.yaml")
	watch(t, dir, nil, func(t *testing.T, w *watched) {
		w.Refuse(errors.New("too many rules for this server"))
		write(t, config("a", 5), dir, "a.yaml")
		w.pass(time.Minute)
		w.expect(1, 2, "it was refused")
		w.expectLogged("too many rules for this server", 1)
		w.expectErrors("too many rules for this server")
		w.Refuse(nil)
		write(t, config("a", 9)[:150], dir, "a.yaml")
		write(t, config("b", 2), dir, "b.yaml")
		w.pass(promised)
		w.expect(2, 3, "a's last valid version is the one that was in force")
	})
}

func TestHalfWrittenFileIsNotReported(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	whole := config("a", 50)
	watch(t, dir, nil, func(t *testing.T, w *watched) {
		for _, part := range []int{15, 30, 700, len(whole)} { // the first two do not parse
			write(t, whole[:part], dir, "a.yaml")
			w.pass(interval)
			w.expect(1, 1, "the file is still being written")
		}
		w.pass(interval)
		w.expect(2, 50, "the file is complete")
		w.expectLogged("level=ERROR", 0)
	})
}

// mount swaps dir to a version of a ConfigMap, in the steps that the kubelet takes.
func mount(t *testing.T, dir, version, text string) {
	t.Helper()
	write(t, text, dir, ".."+version, "shop.yaml")
	must(t, os.Symlink(".."+version, filepath.Join(dir, "..data_tmp")))
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if old == "" {
		must(t, os.Symlink(filepath.Join("..data", "shop.yaml"), filepath.Join(dir, "shop.yaml")))
		return
	}
	must(t, os.RemoveAll(filepath.Join(dir, old)))
}

// swaps are ways to put another version in the place of a directory's content, all of it at one moment.
var swaps = map[string]func(t *testing.T, root string, version int) (dir string){
	"a ConfigMap mount": func(t *testing.T, root string, version int) string {
		mount(t, root, fmt.Sprint("version_", version), config("shop", version))
		return root
	},
	"a link above the directory, as Lyft's runtime has it": func(t *testing.T, root string, version int) string {
		write(t, config("shop", version), root, fmt.Sprint(version), "config", "shop.yaml")
		current := filepath.Join(root, "current")
		must(t, os.Symlink(fmt.Sprint(version), current+"_next"))
		must(t, os.Rename(current+"_next", current))
		return filepath.Join(current, "config")
	},
}

// A version is in force within eleven seconds of being there, or else one that has come after it.
func TestConstantlyChangingDirectoryIsFollowed(t *testing.T) {
	const pause, longest = 250 * time.Millisecond, 11 * time.Second
	for name, swap := range swaps {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			watch(t, swap(t, root, 1), nil, func(t *testing.T, w *watched) {
				for version := 2; version <= 150; version++ {
					swap(t, root, version)
					w.pass(pause)
					old := version - int(longest/pause)
					if _, rules := w.inForce(); rules < old {
						t.Fatalf("version %d is still in force, where %d was there %v ago, and %d is now", rules, old, longest, version)
					}
				}
				w.pass(promised)
				w.expectLogged("level=ERROR", 0)
			})
		})
	}
}

// All files of a version have the same number of rules. A swapper that never pauses meets many of the reads, as they
// take about as long as a swap.
func TestVersionsAreNeverMixed(t *testing.T) {
	files, loads := 40, 100
	if testing.Short() {
		loads = 25
	}
	root := t.TempDir()
	swap := func(version int) error {
		data := filepath.Join(root, fmt.Sprint("..", version))
		err := os.Mkdir(data, 0o755)
		for i := range files {
			text := config(fmt.Sprint("d", i), version%9+1)
			err = errors.Join(err, os.WriteFile(filepath.Join(data, fmt.Sprint(i)), []byte(text), 0o644))
		}
		return errors.Join(err, os.Symlink(filepath.Base(data), filepath.Join(root, "..next")),
			os.Rename(filepath.Join(root, "..next"), filepath.Join(root, "..data")),
			os.RemoveAll(filepath.Join(root, fmt.Sprint("..", version-1))))
	}
	must(t, swap(0))
	for i := range files {
		must(t, os.Symlink(filepath.Join("..data", fmt.Sprint(i)), filepath.Join(root, fmt.Sprint(i))))
	}
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for version := 1; ; version++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := swap(version); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer swapper.Wait()
	defer close(stop)

	d := New(root, yaml.Options{}, slog.New(slog.DiscardHandler))
	apply := func(c *descriptors.Config) error {
		rules := make(map[string]int)
		for _, r := range c.Rules() {
			rules[r.Domain]++
		}
		for domain, n := range rules {
			if n != rules["d0"] || len(rules) != files {
				t.Errorf("two versions are mixed: %d of %d domains have rules, d0 has %d, %s has %d", len(rules), files,
					rules["d0"], domain, n)
				break
			}
		}
		return nil
	}
	loaded, refused := 0, 0
	for loaded < loads { // one that is never read outlasts the time that go test gives
		if s := d.scan(); d.load(s, apply, maxWaits) {
			loaded++
		} else {
			refused++
		}
	}
	t.Logf("read %d times; changed meanwhile %d times", loaded, refused)
}

func TestMissingDirectoryIsWaitedFor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config")
	watch(t, dir, nil, func(t *testing.T, w *watched) {
		w.pass(time.Minute)
		w.expectLogged("does not exist: create it", 1)
		w.expectLogged(`in_force="none yet"`, 1)

		must(t, os.Mkdir(dir, 0o755))
		w.pass(time.Minute)
		w.expectLogged("holds no files: put a YAML file into it", 1)

		write(t, config("a", 1), dir, "a.yaml")
		w.pass(promised)
		w.expect(1, 1, "the directory has come")

		must(t, os.Rename(dir, dir+"-away"))
		w.pass(time.Minute)
		w.expect(1, 1, "the directory has gone: the last good configuration stays")
		w.expectLogged("does not exist: create it", 2)
		w.expectLogged(`in_force="the last good one"`, 1)

		must(t, os.Rename(dir+"-away", dir))
		w.pass(promised)
		w.expect(2, 1, "the directory is back")
		w.expectErrors("does not exist", "holds no files", "does not exist")
	})
}

func TestMayBeEmptyAcceptsNoFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "config")
	watch(t, dir, func(d *Dir) { d.MayBeEmpty = true }, func(t *testing.T, w *watched) {
		found := func() descriptors.MatchKind {
			applied, _, _ := w.Got()
			return applied[len(applied)-1].Match("a", descriptors.Descriptor{{Key: "k0"}}).Kind
		}
		w.expect(1, 0, "a missing directory is a configuration at the start: every request is OK")
		w.expectLogged("level=WARN", 1)
		w.expectLogged("every request is allowed", 1)
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

func TestRequestedReloadReadsAtOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	write(t, config("b", 1), dir, "b.yaml")
	var d *Dir
	watch(t, dir, func(made *Dir) { d = made }, func(t *testing.T, w *watched) {
		reload := func() { d.Reload(); w.pass(0) }
		w.expect(1, 2, "the first load")
		reload()
		w.expect(2, 2, "nothing has changed, and it is read all the same")

		write(t, config("a", 2), dir, "a.yaml")
		reload()
		w.expect(3, 3, "it waits for no look")
		w.pass(time.Minute)
		w.expect(3, 3, "what was asked for is not loaded twice")

		write(t, "descriptors: ][", dir, "a.yaml")
		reload()
		w.expectErrors("a.yaml:1: ")
		w.pass(time.Minute)
		reload()
		w.expect(3, 3, "it is still wrong")
		w.expectLogged("configuration not loaded", 2)
		write(t, config("a", 2), dir, "a.yaml")
		reload()
		w.expect(4, 3, "it is what is in force, but whoever was told of an error must be told of its end")

		must(t, os.Rename(dir, dir+".away"))
		reload()
		w.expect(4, 3, "the directory is away: the last good configuration stays")
		w.expectLogged("does not exist", 1)
		must(t, os.Rename(dir+".away", dir))
	})
}
