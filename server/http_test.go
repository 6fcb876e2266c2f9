package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirproxy/weir/server/connlimit"
)

func TestJSONNeedsTheJSONContentType(t *testing.T) {
	const closed = "/json is not served, as JSON_ENABLED is false."
	inJSON := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	text := http.Header{"Content-Type": {"text/plain"}}
	web := http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://evil.test"}}
	older := http.Header{"Content-Type": {"text/plain"}, "Origin": {"http://evil.test"}}
	for _, c := range []struct {
		promise string
		config  Config
		header  http.Header
		code    int
		says    string
	}{
		{"a tool", Config{}, inJSON, 200, "asked"},
		{"a tool that sends text", Config{}, text, 415, "application/json"},
		{"a tool that says nothing", Config{}, http.Header{}, 415, "application/json"},
		{"a client of envoyproxy/ratelimit", Config{AnyJSONType: true}, http.Header{}, 200, "asked"},
		{"a page of the web", Config{}, web, 403, "web pages"},
		{"a page of the web, in the place of envoyproxy/ratelimit", Config{AnyJSONType: true}, older, 403, "web pages"},
		{"a page whose name was pointed here", Config{}, http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"same-origin"}},
			403, "web pages"},
		{"where it is turned off", Config{NoJSON: closed}, inJSON, 403, closed},
	} {
		r := httptest.NewRequest("POST", "http://weir/json", strings.NewReader("{}"))
		r.Header = c.header
		w := httptest.NewRecorder()
		asked := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("asked")) })
		newPort(new(connlimit.Listener), slog.New(slog.DiscardHandler), guardJSON(c.config, asked)).http.Handler.ServeHTTP(w, r)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %d %s %v, want %d with %q, and nosniff", c.promise, w.Code, w.Body, w.Header(), c.code, c.says)
		}
	}
}
