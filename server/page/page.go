// Package page is what people look at: the files of a web page that shows every rule, and curves of its hits. The page
// asks the port that serves it for what it shows, and changes nothing.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed index.html page.css icon.svg *.js
var embedded embed.FS

const index = "index.html"

// policy lets the page load its own files and ask its own port, and nothing else: the names that it shows come from
// requests.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mediaTypes are those of the files. The system's own table may differ, and browsers run no script of another type.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is a file as it is served.
type file struct {
	content []byte
	media   string
	tag     string // changes whenever the content does
}

// Endpoint is something that the port serves beside the page.
type Endpoint struct {
	Path  string // from the root of the port, /api/v1/history
	Query string // the parameters that it takes, domain=&path=
	What  string // a sentence without its end
	Asked bool   // answers only to a question, so that a link to the bare path would lead to an error
}

// Name returns the path with its parameters.
func (e *Endpoint) Name() string {
	if e.Query == "" {
		return e.Path
	}
	return e.Path + "?" + e.Query
}

// Handler serves the page at whatever path ends in a slash, and its files by the last part of theirs. The page names the
// endpoints. All references between its files are relative, so a proxy may put them below a path of its own.
func Handler(served []Endpoint) http.Handler {
	files := make(map[string]file)
	entries, _ := fs.ReadDir(embedded, ".") // what is embedded can be read
	for _, entry := range entries {
		content, _ := embedded.ReadFile(entry.Name())
		if entry.Name() == index {
			content = bytes.Replace(content, []byte(placeholder), list(served), 1)
		}
		sum := sha256.Sum256(content)
		files[entry.Name()] = file{content, mediaTypes[path.Ext(entry.Name())], `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, last := path.Split(r.URL.Path)
		f, known := files[cmp.Or(last, index)]
		if !known || last == index { // its references would lead elsewhere
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", f.media)
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // asked for anew each time, and by its tag mostly not sent again
		h.Set("ETag", f.tag)
		http.ServeContent(w, r, last, time.Time{}, bytes.NewReader(f.content))
	})
}

// placeholder is where the page lists the endpoints.
const placeholder = "<!-- endpoints -->"

// list writes endpoints as items of a list. They are named without scripts too.
func list(served []Endpoint) []byte {
	var b bytes.Buffer
	for _, e := range served {
		name := "<b>" + html.EscapeString(e.Name()) + "</b>"
		if !e.Asked {
			name = fmt.Sprintf(`<a href="%s">%s</a>`, html.EscapeString(strings.TrimPrefix(e.Path, "/")), html.EscapeString(e.Name()))
		}
		fmt.Fprintf(&b, "<li>%s <span>%s</span></li>\n", name, html.EscapeString(e.What))
	}
	return b.Bytes()
}
