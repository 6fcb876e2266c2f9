package yaml

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachBadFileIsToldItsFault reads testdata/bad, where each file is named after its one fault and begins with the
// message that it must give.
func TestEachBadFileIsToldItsFault(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "bad", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no bad files: %v", err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := bytes.Cut(data, []byte("\n"))
			want := strings.TrimPrefix(string(first), "# ")
			c, problems := judge([]File{{Name: name, Data: data}}, Options{})
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
		})
	}
}

// What is no descriptor file may hold a secret, and whoever sees the log need not be who may see the file.
func TestAFileThatIsNoMappingIsNeverQuoted(t *testing.T) {
	for _, text := range []string{"hunter2", "'hunter2'", "root:hunter2:19000:0:::\nann:hunter2:19000:0:::",
		"@hunter2", "*hunter2", "!hunter2 [", "\"a\" hunter2", "password: pass: hunter2", "token: [hunter2", "key: {hunter2}hunter2", "- hunter2", "hunter2: !!x {",
		"%hunter2", "key:hunter2: [", "&hunter2 *b", "domain=corp\npassword=hunter2: [\n"} {
		c, problems := judge([]File{file("f", text)}, Options{})
		if c != nil || len(problems) == 0 || strings.Contains(problems.Err().Error(), "hunter2") {
			t.Errorf("%s: got %v, want errors without the password", text, problems)
		}
	}
}
