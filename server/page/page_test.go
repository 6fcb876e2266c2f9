package page

import (
	"io/fs"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

// contents returns all files of the page, by name.
func contents(t *testing.T) map[string]string {
	t.Helper()
	entries, err := fs.ReadDir(embedded, ".")
	if err != nil || len(entries) < 5 {
		t.Fatalf("%d files are embedded, %v: these tests would prove nothing", len(entries), err)
	}
	all := make(map[string]string)
	for _, entry := range entries {
		content, err := embedded.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(content)
	}
	return all
}

// get asks for a path, as one who knows what has a tag.
func get(path, known string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("If-None-Match", known)
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

// served returns where a file is found.
func served(name string) string {
	if name == index {
		return "/"
	}
	return "/page/" + name
}

func TestFilesHaveTheirTypesAndHeaders(t *testing.T) {
	media := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
	forbids := map[string]string{ // what the page does not do
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-cache",
	}
	tags, size := make(map[string]string), 0
	for name, content := range contents(t) {
		size += len(content)
		w := get(served(name), "")
		if w.Code != 200 || w.Body.String() != content || !strings.HasPrefix(w.Header().Get("Content-Type"), media[path.Ext(name)]) {
			t.Errorf("%s is answered with %d, %q and %d bytes of %d", name, w.Code, w.Header().Get("Content-Type"), w.Body.Len(), len(content))
		}
		for key, value := range forbids {
			if got := w.Header().Get(key); got != value {
				t.Errorf("%s has %s: %q; want %q, as names in it come from requests", name, key, got, value)
			}
		}
		tag := w.Header().Get("ETag")
		if tag == "" || tags[tag] != "" {
			t.Errorf("%s has the tag %q, as %q has: a browser would keep what is old", name, tag, tags[tag])
		}
		tags[tag] = name
		if w := get(served(name), tag); w.Code != 304 || w.Body.Len() > 0 {
			t.Errorf("%s, which is known, is answered with %d and %d bytes", name, w.Code, w.Body.Len())
		}
		if w := get(served(name), `"old"`); w.Code != 200 {
			t.Errorf("%s, which is known as it was, is answered with %d", name, w.Code)
		}
	}
	if size > 130_000 {
		t.Errorf("the page has %d bytes, at most 130,000 are allowed: it is loaded over slow tunnels, without a cache", size)
	}
	for _, unknown := range []string{"/page/index.html", "/page/page.go", "/page/..%2fpage.go", "/page/nothing.js"} {
		if w := get(unknown, ""); w.Code != 404 {
			t.Errorf("%s is answered with %d; want 404", unknown, w.Code)
		}
	}
}

var (
	inMarkup = regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	imported = regexp.MustCompile(`(?m)(?:from|import)\s+'([^']*)';`)
	asked    = regexp.MustCompile(`\bask\('([^']*)'`)
)

func TestReferencesAreRelative(t *testing.T) {
	all := contents(t)
	known := func(name string) bool { _, there := all[name]; return there }
	found := 0
	for name, content := range all {
		for _, m := range inMarkup.FindAllStringSubmatch(content, -1) {
			file, ofPage := strings.CutPrefix(m[1], "page/")
			if found++; path.IsAbs(m[1]) || ofPage && !known(file) {
				t.Errorf("%s refers to %q, which is absolute or not there", name, m[1])
			}
		}
		for _, m := range imported.FindAllStringSubmatch(content, -1) {
			file, beside := strings.CutPrefix(m[1], "./")
			if found++; !beside || !known(file) {
				t.Errorf("%s imports %q; want a file beside it", name, m[1])
			}
		}
		for _, m := range asked.FindAllStringSubmatch(content, -1) {
			if found++; path.IsAbs(m[1]) || strings.Contains(m[1], ":") {
				t.Errorf("%s asks %q; want a path relative to the page", name, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d references were found: this test looks for the wrong thing", found)
	}
}
