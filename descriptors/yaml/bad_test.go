package yaml

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// read returns the files of a folder of testdata.
func read(t testing.TB, pattern string) (files []File) {
	t.Helper()
	names, err := filepath.Glob(filepath.FromSlash(pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no files %s: %v", pattern, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Name: filepath.Base(name), Data: data})
	}
	return files
}

// wantFault wants of a file the one message that it begins with.
func wantFault(t *testing.T, f File, o Options) {
	t.Helper()
	first, _, _ := bytes.Cut(f.Data, []byte("\n"))
	want := strings.TrimPrefix(string(first), "# ")
	if o.Lenient {
		want = strings.Replace(strings.Replace(want, "error: ", "warning: ", 1), "does not belong", "is ignored", 1)
	}
	c, problems := judge([]File{f}, o)
	if len(problems) != 1 {
		t.Fatalf("got %v, want one problem, so that each mistake is told once", problems)
	}
	got := "error: " + problems[0].Error()
	if problems[0].Warning {
		got = "warning: " + problems[0].Error()
	}
	if got != want || (c != nil) != problems[0].Warning {
		t.Errorf("got %v,\n%s\nwant a configuration only beside a warning, and\n%s", c, got, want)
	}
}

// tooMuch are files that nobody would read in testdata/bad, by how their messages end.
var tooMuch = map[string]string{
	":4: domain d: value is 4097 bytes long: at most 4096 are allowed":     under("value: " + strings.Repeat("v", 4097)),
	":4: domain d, k: rate_limits lists 17 limits: at most 16 are allowed": under("rate_limits: [" + strings.Repeat("{}, ", 17) + "]"),
	"the path is 20479 bytes long: at most 16384 are allowed, shorten its keys and values": "domain: d\ndescriptors:\n- " +
		strings.Repeat("{key: "+strings.Repeat("k", 4095)+", descriptors: [", 5) + strings.Repeat("]}", 5),
}

// In testdata/bad each file is named after its one fault and begins with the message that it must give.
func TestEachFaultIsReportedAtItsLine(t *testing.T) {
	for _, f := range read(t, "testdata/bad/*") {
		t.Run(f.Name, func(t *testing.T) { wantFault(t, f, Options{}) })
	}
	for want, text := range tooMuch {
		c, problems := judge([]File{file("f", text)}, Options{})
		if c != nil || len(problems) != 1 || !strings.HasSuffix(problems[0].Error(), want) {
			t.Errorf("got %v, want one problem:\n%s", problems, want)
		}
	}
}

// In testdata/lost something was meant as a limit and is none: it must be seen at once. Whoever comes from
// envoyproxy/ratelimit with such a file keeps what it did there.
func TestUnreadableLimitBreaksItsDomain(t *testing.T) {
	for _, f := range read(t, "testdata/lost/*") {
		t.Run(f.Name, func(t *testing.T) {
			wantFault(t, f, Options{})
			wantFault(t, f, Options{Lenient: true})
		})
	}
}

// What is no descriptor file may hold a secret, and whoever sees the log need not be who may see the file.
func TestForeignFilesAreNeverQuoted(t *testing.T) {
	for _, text := range []string{"hunter2", "'hunter2'", "root:hunter2:19000:0:::\nann:hunter2:19000:0:::",
		"@hunter2", "*hunter2", "!hunter2 [", "\"a\" hunter2", "password: pass: hunter2", "token: [hunter2", "key: {hunter2}hunter2", "- hunter2", "hunter2: !!x {",
		"%hunter2", "key:hunter2: [", "&hunter2 *b", "domain=corp\npassword=hunter2: [\n"} {
		c, problems := judge([]File{file("f", text)}, Options{})
		if c != nil || len(problems) == 0 || strings.Contains(problems.Err().Error(), "hunter2") {
			t.Errorf("%s: got %v, want errors without the password", text, problems)
		}
	}
}
