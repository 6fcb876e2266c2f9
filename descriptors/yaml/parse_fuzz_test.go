package yaml

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxFuzzed is how long a fuzzed file may be, in bytes; TestHostileFilesAreRefused has longer ones.
const maxFuzzed = 16 << 10

// shownFiles are the descriptor files in FORMAT.md, some without their first two lines.
var shownFiles = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func FuzzParse(f *testing.F) {
	format, err := os.ReadFile(filepath.Join("..", "FORMAT.md"))
	shown := shownFiles.FindAllSubmatch(format, -1)
	if len(shown) == 0 {
		f.Fatalf("FORMAT.md has no descriptor file: %v", err)
	}
	for _, file := range shown {
		f.Add(file[1])
		f.Add(append([]byte("domain: shop\ndescriptors:\n"), file[1]...))
	}
	for _, pattern := range []string{"../../k8s/base/config/*", "../testdata/*.yaml", "testdata/*/*.yaml"} {
		for _, file := range read(f, pattern) {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) <= maxFuzzed {
			checkFile(t, data)
		}
	})
}

// checkFile fails unless a file has errors, each told in a line, or is a configuration.
func checkFile(t *testing.T, data []byte) {
	r := NewLastGood(Options{}).Update([]File{{Name: "f", Data: data}}, nil)
	if (r.Config == nil) != (r.Problems.Err() != nil) {
		t.Fatalf("a config must come with no error, and no config with one; got %v, %v", r.Config, r.Problems)
	}
	for _, p := range r.Problems {
		if s := p.Error(); len(s) > 2000 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
			t.Errorf("a problem must be one line and short: %q", s)
		}
	}
}
