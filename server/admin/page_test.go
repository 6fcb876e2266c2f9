package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// front asks a port for a path.
func front(likeRatelimit bool, method, path, accept string) *httptest.ResponseRecorder {
	return send(serving(Parts{LikeRatelimit: likeRatelimit}), method, path, func(r *http.Request) { r.Header.Set("Accept", accept) })
}

func TestRootServesThePageOrList(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	for _, c := range []struct {
		promise       string
		likeRatelimit bool
		path          string
		accept        string
		wantedHTML    bool
	}{
		{"weir shows the page to a browser", false, "/", browser, true},
		{"weir shows the page to curl", false, "/", "*/*", true},
		{"weir shows the page to whoever says nothing", false, "/", "", true},
		{"weir has the list on /help", false, "/help", browser, false},
		{"ratelimit shows the page to a browser", true, "/", browser, true},
		{"ratelimit shows the page to whoever takes nothing else", true, "/", "Text/HTML; charset=utf-8", true},
		{"ratelimit has the list for curl", true, "/", "*/*", false},
		{"ratelimit has the list for whoever says nothing", true, "/", "", false},
		{"ratelimit has the list for whoever takes text", true, "/", "text/plain, text/*", false},
		{"ratelimit has the list on /help", true, "/help", browser, false},
		{"ratelimit has the list where people probe it", true, "/healthcheck", "*/*", false},
		{"ratelimit has the list wherever there is nothing", true, "/a/b", browser, false},
	} {
		w := front(c.likeRatelimit, "GET", c.path, c.accept)
		isPage := strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") && strings.Contains(w.Body.String(), "<!doctype html>")
		isList := strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") && strings.HasPrefix(w.Body.String(), "/livez ")
		if w.Code != 200 || isPage != c.wantedHTML || isList == c.wantedHTML {
			t.Errorf("%s: got %d %q %.40q", c.promise, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		if varies := w.Header().Get("Vary") == "Accept"; varies != (c.likeRatelimit && c.path == "/") {
			t.Errorf("%s: Vary is %q: a cache would hand the page to tools, or the list to people", c.promise, w.Header().Get("Vary"))
		}
	}
}

func TestOnlyReadingMethodsAreAllowed(t *testing.T) {
	for _, path := range []string{"/", "/help", "/page/main.js", "/api/v1/rules"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			if w := front(false, method, path, ""); w.Code != http.StatusMethodNotAllowed || !strings.Contains(w.Header().Get("Allow"), "GET") {
				t.Errorf("%s %s is answered with %d, Allow %q; want 405", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
		if w := front(false, "HEAD", path, ""); w.Code != 200 {
			t.Errorf("HEAD %s is answered with %d", path, w.Code)
		}
	}
	for path, like := range map[string]bool{"/nothing": false, "/healthcheck": false, "/api/v1/nothing": true, "/api": true,
		"/page/nothing": true, "/prometheus/": true, "/debug/pprof/": true} {
		if w := front(like, "GET", path, ""); w.Code != 404 {
			t.Errorf("%s, which is unknown, is answered with %d; as ratelimit: %v", path, w.Code, like)
		}
	}
}
