package descriptors

import (
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"", "", true}, {"", "a", false},
		{"*", "", true}, {"*", "anything", true}, {"**", "", true},
		{"a*", "a", true}, {"a*", "ab", true}, {"a*", "ba", false},
		{"*a", "a", true}, {"*a", "ba", true}, {"*a", "ab", false}, {"*a", "aa", true},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"a*a", "aba", true},
		{"*ab*ab*", "ab", false}, {"*ab*ab*", "abab", true}, {"*aba*aba", "ababa", false},
		{"a*b*c", "axxbxxbxxc", true}, {"a*b*c", "acb", false},
		{"/static/*", "/static/", true}, {"/static/*", "/static/css/a.css", true}, {"/static/*", "/static", false},
		{"[a]?", "[a]?", true}, {"?", "a", false}, {"é*", "été", true}, {"*\x00*", "a\x00b", true},
	}
	for _, test := range tests {
		if got := glob(test.pattern, test.s); got != test.want {
			t.Errorf("glob(%q, %q) is %v, want %v", test.pattern, test.s, got, test.want)
		}
	}
}

func TestGlobTakesNoTimeOnHostileText(t *testing.T) {
	// A backtracking matcher needs longer than the universe has for this.
	if glob(strings.Repeat("a*", 50)+"b", strings.Repeat("a", 100_000)) {
		t.Error("there is no b")
	}
}
