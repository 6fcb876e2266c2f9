package browser

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// policy is that of weir's page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// sins are what weir's page must not do, each with a part of the complaint: a script, or HTML if it begins with a tag.
type sins map[string]string

// TestAWatchCatches proves that the other tests can fail: pages do what weir's must not, and nothing else is complained of.
func TestAWatchCatches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy string
		sins   sins
	}{
		"good": {policy, sins{`console`: ""}},
		"free": {"", sins{
			`console.error('x')`:                                     "the console says error",
			`console.warn('x')`:                                      "the console says warning",
			`console.log('x')`:                                       "the console says log",
			`throw new Error('thrown')`:                              "Error: thrown",
			`Promise.reject(new Error('rejected'))`:                  "Error: rejected",
			`setTimeout(() => alert(1))`:                             "a dialog opens",
			`<link rel="stylesheet" href="/none.css">`:               "the browser logs error",
			`new Image().src = 'http://elsewhere.example/x.png'`:     "GET http://elsewhere.example/x.png",
			`fetch('http://elsewhere.example/y').catch(() => 0)`:     "GET http://elsewhere.example/y",
			`navigator.sendBeacon('http://elsewhere.example/', 'x')`: "POST http://elsewhere.example/",
			`fetch('http://127.0.0.1:9/').catch(() => 0)`:            "GET http://127.0.0.1:9/",
			`new WebSocket('ws://elsewhere.example/')`:               "a WebSocket to another host",
			`fetch('/empty', {method: 'POST'})`:                      "a request that may write",
			`<iframe src="/empty"></iframe>`:                         "a frame is made",
			`new Worker('/empty')`:                                   "something runs beside the page: worker",
			`window.open('/empty')`:                                  "a window opens",
		}},
		"strict": {policy, sins{
			`<script>1</script>`:                                 "the policy is violated: script-src",
			`<p style="color: red">x</p>`:                        "the policy is violated: style-src",
			`new Image().src = 'http://elsewhere.example/x.png'`: "the policy is violated: img-src",
			`fetch('http://elsewhere.example/').catch(() => 0)`:  "the policy is violated: connect-src",
			`<img src="data:," onerror="1">`:                     "an issue: ContentSecurityPolicyIssue",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scripts, html := make(map[string]string), ""
			for sin := range c.sins {
				if strings.HasPrefix(sin, "<") {
					html += sin
					continue
				}
				path := fmt.Sprintf("/%d.js", len(scripts))
				scripts[path] = sin
				html += `<script src="` + path + `"></script>`
			}
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				script, is := scripts[r.URL.Path]
				switch {
				case is || r.URL.Path == "/empty":
					w.Header().Set("Content-Type", "text/javascript")
					fmt.Fprint(w, script)
				case r.URL.Path == "/":
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					if c.policy != "" {
						w.Header().Set("Content-Security-Policy", c.policy)
					}
					fmt.Fprint(w, `<!doctype html><html lang="en"><title>x</title><link rel="icon" href="data:,">`, html)
				default:
					http.NotFound(w, r)
				}
			}))
			t.Cleanup(site.Close)
			b := openBlank(t, site.URL, look{})
			b.load(site.URL + "/")
			for began := time.Now(); len(c.sins) > 0; time.Sleep(15 * time.Millisecond) {
				b.settle()
				found := strings.Join(b.complaints(), "\n")
				maps.DeleteFunc(c.sins, func(sin, want string) bool { return strings.Contains(found, want) })
				if time.Since(began) > process.Hang {
					t.Fatalf("nobody complains of %q: what the other tests watch for would not be seen", c.sins)
				}
			}
			if name != "good" {
				b.allow("")
			}
		})
	}
}
