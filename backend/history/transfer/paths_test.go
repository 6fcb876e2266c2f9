package transfer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAFileOfManyPathsWarnsOfTen(t *testing.T) {
	t.Parallel()
	var p paths
	for range 2 {
		for i := range 25 {
			if text, want := fmt.Sprintf("path=/%d", i), fmt.Sprintf("path=%%2F%d", i); p.stored(text) != want {
				t.Errorf("%s is read as %s, want %s", text, p.stored(text), want)
			}
		}
	}
	if w := p.warnings(); len(w) != 11 || w[10] != "and 15 more paths" || !slices.Contains(w, `path "path=/9" is counted as "path=%2F9", as weir stores it`) {
		t.Errorf("of 25 paths it warns %q", w)
	}
	for i := range 2 * maxPaths {
		p.stored(fmt.Sprintf("path=/more/%d", i))
	}
	if w := p.warnings(); len(p.known) != maxPaths || w[10] != "and 990 more paths at least" {
		t.Errorf("of more paths than are remembered it warns %q, and remembers %d", w[10:], len(p.known))
	}
	if long := "path=" + strings.Repeat("/", maxName-5); p.stored(long) != long {
		t.Error("a path that is too long as it is stored is not kept as it stands")
	}
}
