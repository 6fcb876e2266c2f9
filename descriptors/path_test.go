package descriptors

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestAPathAsItIsShownIsReadAsItIsStored(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"user":                        "user",
		"user/path=/login":            "user/path=%2Flogin",
		"user/path=%2Flogin":          "user/path=%2Flogin",
		"user=ann/tenant=7":           "user=ann/tenant=7",
		"path=/":                      "path=%2F",
		"path=/login/":                "path=%2Flogin%2F",
		"user/query=a=b":              "user/query=a%3Db",
		"user/discount=100%":          "user/discount=100%25",
		"user/query=":                 "",
		"a=b/c=":                      "a=b%2Fc%3D",
		"a=b/c/=d":                    "a=b%2Fc%2F%3Dd",
		"__unmatched__":               "__unmatched__",
		"path=a%252Fb":                "path=a%252Fb",
		"user/path=*":                 "user/path=*",
		"/login":                      "",
		"":                            "",
		"=":                           "",
		"user//x":                     "",
		"user/path=/pay/user":         "", // of a rule per user below /pay, or of /pay/user
		"user/path=/a/b=c":            "",
		"user/path=%2Flogin/to=/home": "",
		"user/path=%2flogin":          "",
	} {
		got, err := StoredPath(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q is read as %q, %v; want %q", text, got, err, want)
		}
		if err == nil && !SamePath(got, text) {
			t.Errorf("%q is read as %q, which is shown as %q: another path", text, got, ReadablePath(got))
		}
	}
	_, err := StoredPath("user/path=/pay/user")
	if err == nil || !strings.Contains(err.Error(), `"user/path=%2Fpay%2Fuser", "user/path=%2Fpay/user"`) {
		t.Errorf("a text of two meanings is refused with %v, want both to choose from", err)
	}
}

// What weir stores is itself; what it shows is read as what it stores, or not at all.
func TestNoPathIsReadAsAnother(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 16))
	word := func(alphabet string, least int) string {
		var b strings.Builder
		for range least + rng.IntN(4) {
			b.WriteByte(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	read := 0
	for range rounds() {
		var levels []string
		for range 1 + rng.IntN(3) {
			levels = append(levels, PathSegment(word("ab2F", 1), word("a/=%2F", 0)))
		}
		stored := strings.Join(levels, "/")
		if got, err := StoredPath(stored); err != nil || got != stored {
			t.Fatalf("%q, which is stored, is read as %q, %v", stored, got, err)
		}
		shown := ReadablePath(stored)
		got, err := StoredPath(shown)
		if err != nil || got == shown { // a text that could be stored is taken for one
			continue
		}
		if read++; got != stored {
			t.Fatalf("%q is shown as %q, which is read as %q", stored, shown, got)
		}
	}
	if read < rounds()/20 {
		t.Errorf("only %d paths were read as they are stored", read)
	}
}
