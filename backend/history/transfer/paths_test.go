package transfer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAFileOfManyPathsWarnsOfTen(t *testing.T) {
	t.Parallel()
	in := input{paths: make(map[string]string)}
	for range 2 {
		for i := range 25 {
			if text, want := fmt.Sprintf("path=/%d", i), fmt.Sprintf("path=%%2F%d", i); in.storedPath(text) != want {
				t.Errorf("%s is read as %s, want %s", text, in.storedPath(text), want)
			}
		}
	}
	if w := in.warnings(); len(w) != 11 || w[10] != "and more paths" || !slices.Contains(w, `path "path=/9" is counted as "path=%2F9", as weir stores it`) {
		t.Errorf("of 25 paths it warns %q", w)
	}
	if long := "path=" + strings.Repeat("/", maxName-5); in.storedPath(long) != long {
		t.Error("a path that is too long as it is stored is not kept as it stands")
	}
}
