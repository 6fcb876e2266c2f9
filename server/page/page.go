// Package page embeds the web page that shows every rule and charts its hits. The page requests its data from the port
// that serves it, and changes nothing.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed index.html page.css icon.svg *.js
var embedded embed.FS

const index = "index.html"

// securityPolicy lets the page load files and data from its own port only, because the names that it shows come from requests.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// mediaTypes are set here because the system's table may differ, and browsers run no script of another type.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// file is a served file.
type file struct {
	content   []byte
	mediaType string
	etag      string // the ETag, which changes with the content
}

//go:embed help.txt
var help string

// Help lists what the port serves besides the page.
func Help(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, help) // the client is gone if this fails
}

// Handler serves the page at every path that ends in a slash, and its files by the last element of the path. Links
// between files are relative, so a proxy may use a path prefix.
func Handler() http.Handler {
	files := make(map[string]file)
	entries, _ := fs.ReadDir(embedded, ".") // embedded files can be read
	for _, entry := range entries {
		content, _ := embedded.ReadFile(entry.Name())
		sum := sha256.Sum256(content)
		files[entry.Name()] = file{content, mediaTypes[path.Ext(entry.Name())], `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, last := path.Split(r.URL.Path)
		f, known := files[cmp.Or(last, index)]
		if !known || last == index { // the index's relative links would break
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", f.mediaType)
		h.Set("Content-Security-Policy", securityPolicy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // requested each time, and mostly answered with 304 by the ETag
		h.Set("ETag", f.etag)
		http.ServeContent(w, r, last, time.Time{}, bytes.NewReader(f.content))
	})
}
