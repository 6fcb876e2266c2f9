package file

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// load is Load, and its problems as texts.
func loadTexts(dir string) (*descriptors.Config, []string, error) {
	c, problems, err := Load(dir, yaml.Options{})
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return c, texts, err
}

func TestLoadReadsEveryFileBelowADirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	write(t, config("b", 1), dir, "no-ending")
	write(t, config("c", 1), dir, "x", "y", "c.yml")
	write(t, config("d", 1), dir, ".data", "d")
	write(t, config("e", 1), dir, ".data", "more", "e")
	write(t, "hidden: [", dir, ".git", "config")
	write(t, "hidden: [", dir, ".a.yaml.swp")
	must(t, os.Symlink(filepath.Join(".data", "d"), filepath.Join(dir, "d.yaml")))
	must(t, os.Symlink(filepath.Join(".data", "more"), filepath.Join(dir, "more")))
	socket, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	defer socket.Close()

	c, problems, err := loadTexts(dir)
	if err != nil || strings.Join(problems, ";") != "s: left out, as it is neither a file nor a directory: remove it" {
		t.Fatalf("got %q, %v; want a warning of the socket alone", problems, err)
	}
	var got []string
	for _, r := range c.Rules() {
		got = append(got, r.Where)
	}
	want := "a.yaml:3 d.yaml:3 more/e:3 no-ending:3 x/y/c.yml:3"
	if strings.Join(got, " ") != want {
		t.Errorf("got the rules %v, want %v: files with a dot and what is no file are left out", got, want)
	}
}

func TestLoadNamesEveryUnusableFile(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "good.yaml")
	write(t, "domain: b\nx: y", dir, "below", "bad\n.yaml")
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	must(t, os.Symlink(filepath.Join("..", "below"), filepath.Join(dir, "below", "circle")))
	write(t, "", dir, "huge")
	must(t, os.Truncate(filepath.Join(dir, "huge"), maxFileSize+1))
	write(t, config("deep", 1), dir, strings.Repeat("d/", maxDepth+1), "deep.yaml")

	c, problems, err := loadTexts(dir)
	if err != nil || c == nil || fmt.Sprint(c.DomainNames(), c.Broken("b")) != "[a] true" {
		t.Errorf("got %v, %v: a file that cannot be used must break its domain, and no other", c, err)
	}
	want := []string{
		"below/circle: cannot be read: it links back to a directory above it",
		strings.Repeat("d/", maxDepth) + "d: cannot be read: directories nest deeper than 10 levels",
		"dangling: cannot be read: no such file or directory",
		"huge: cannot be read: it is larger than 16 MiB: split it",
		`below/bad�.yaml:2: domain b: unknown key "x" in the file: use one of domain, descriptors, refund_on_deny`,
	}
	if got := strings.Join(problems, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestLoadReadsOnlyFilesWithThePrefix(t *testing.T) {
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

// Whoever edits a file in the directory must not break its domain by what the editor leaves there.
func TestEditorLeftoversAreSkippedAndNamed(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	write(t, config("b", 1), dir, "tilde~s.yaml")
	write(t, config("c", 1), dir, "old.bak", "c.yaml") // a directory is none
	var want []string
	for _, name := range strings.Fields("#a.yaml# README.md a.yaml.bak a.yaml.orig a.yaml.rej a.yaml.swp a.yaml.tmp a.yaml~ below/NOTES.MD below/a.yml~") {
		write(t, config("a", 2), dir, filepath.FromSlash(name))
		want = append(want, name+": left out, as its name is that of a backup, a document or an editor's file: remove it, or give it another name "+
			"if it holds limits")
	}
	must(t, os.Symlink("nowhere", filepath.Join(dir, "below", "gone.yaml~")))
	want = append(want, strings.Replace(want[9], "a.yml", "gone.yaml", 1))
	c, problems, err := Load(dir, yaml.Options{})
	if err != nil || c == nil || problems.Err() != nil || fmt.Sprint(c.DomainNames(), c.BrokenNames()) != "[a b c] []" || len(c.Rules()) != 3 {
		t.Fatalf("got %+v, %v, %v, want the domains a, b and c as their files have them, and no error", c, problems, err)
	}
	if _, got, _ := loadTexts(dir); !slices.Equal(got, want) {
		t.Errorf("named are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Whoever may write into the directory must not be able to read by it what only weir may, nor to have weir log it.
func TestLinksOutOfTheDirectoryAreRefused(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, config("a", 1), dir, "good.yaml")
	write(t, config("b", 1), outside, "b.yaml")
	write(t, "hunter2", outside, "password")
	for name, target := range map[string]string{"absolute": filepath.Join(outside, "password"), "inside": filepath.Join(dir, "good.yaml"),
		"up": filepath.Join("..", filepath.Base(outside), "b.yaml"), "below": outside, "chain": "up", "gone": filepath.Join(outside, "x")} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	c, problems, err := loadTexts(dir)
	if err != nil || c == nil || fmt.Sprint(c.DomainNames()) != "[a]" {
		t.Errorf("got %v, %v; want only the domain of the file", c, err)
	}
	var want []string
	for _, name := range strings.Fields("absolute below chain gone inside up") {
		want = append(want, name+": cannot be read: it is a link that is absolute or leads out of the directory, where weir reads "+
			"nothing: put the file itself there, or a relative link to one in the directory")
	}
	if got := strings.Join(problems, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}

	must(t, os.Rename(filepath.Join(dir, "good.yaml"), filepath.Join(dir, "moved")))
	s := New(dir, yaml.Options{}, nil).scan() // before a file becomes a link
	must(t, os.Remove(filepath.Join(dir, "moved")))
	must(t, os.Symlink(filepath.Join(outside, "password"), filepath.Join(dir, "moved")))
	if files, _ := s.read(dir); len(files) > 0 {
		t.Errorf("a file that was a link by the time that it was read holds %q", files[0].Data)
	}
}

func TestLoadExplainsUnusableDirectories(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "file", "a.yaml")
	write(t, ".", dir, "hidden", ".x")
	for i := range 5 {
		write(t, "", dir, "huge", fmt.Sprint(i))
		must(t, os.Truncate(filepath.Join(dir, "huge", fmt.Sprint(i)), maxFileSize))
	}
	for level := range 8 { // 12 to the seventh directories, by links from each to the next
		write(t, "", dir, "fan", fmt.Sprint(level), ".x")
		for n := range 12 {
			must(t, os.Symlink(fmt.Sprintf("../%d", level+1), filepath.Join(dir, "fan", fmt.Sprint(level), fmt.Sprintf("l%d", n))))
		}
	}
	write(t, config("a", 1), dir, "left", "a.yaml~")
	write(t, "# Limits", dir, "left", "README.md")
	write(t, "", dir, "pipe", ".x")
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe", "pipe"), 0o600))
	tests := []struct{ path, want string }{
		{"missing", "does not exist: create it, or name another one"},
		{"file/a.yaml", "not a directory: name the directory of the files"},
		{"hidden", "holds no files: put a YAML file into it"},
		{"huge", "holds more than 10000 files and directories, or 64 MiB: is it the right one?"},
		{"fan", "holds more than 10000 files and directories, or 64 MiB: is it the right one?"},
		{"pipe", "holds no files but what is left out, such as pipe: put a YAML file into it"},
		{"left", "holds no files but what is left out, such as README.md: put a YAML file into it"},
		{"file/a.yaml/x", "cannot be read: "},
	}
	for _, test := range tests {
		path := filepath.Join(dir, test.path)
		c, problems, err := loadTexts(path)
		if c != nil || len(problems) > 0 || err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, %v, %v; want an error …%s…", test.path, c, problems, err, test.want)
		}
	}
}

func TestFileGrowingDuringTheReadIsRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, config("a", 1), dir, "a.yaml")
	d := New(dir, yaml.Options{}, nil)
	s := d.scan()
	must(t, os.Truncate(filepath.Join(dir, "a.yaml"), maxFileSize+1))
	for _, want := range []string{"larger than 16 MiB", "no such file"} {
		files, problems := s.read(dir)
		if r := d.update(s, files, problems); r.Config != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, want) {
			t.Errorf("got %+v, want no configuration and one problem …%s…", r, want)
		}
		must(t, os.RemoveAll(filepath.Join(dir, "a.yaml")))
	}
	if d.load(s, nil, 0) {
		t.Error("a directory that has changed while it was read must be left alone until it rests")
	}
}

// TestExampleConfigurationIsValid reads the files that `make run` serves; cmd/weir/cookbook asks them.
func TestExampleConfigurationIsValid(t *testing.T) {
	c, problems, err := Load(filepath.Join("..", "..", "k8s", "base", "config"), yaml.Options{})
	if err != nil || len(problems) > 0 {
		t.Fatalf("the example must have no problems and no warnings: %v, %v", problems, err)
	}
	got := ""
	rules, passes := c.DomainContent("shop")
	for _, p := range passes {
		got += fmt.Sprintln(p.Path, "passes")
	}
	for _, r := range rules {
		got += fmt.Sprintln(descriptors.ReadablePath(r.Path), r.Describe())
	}
	const want = `user=monitor passes
user 10/minute user-minute, 500/hour user-hour
user/path=/pay 5/minute
user/path=/static/* unlimited
route=search 100/10minute
route=report 20/hour
bytes 1000000/minute
remote_address 1000/minute (shadow: never denies)
`
	if got != want {
		t.Errorf("the example has\n%s\nwant\n%s", got, want)
	}
}
