package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// policy is that of weir's page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// TestAWatchCatches proves that the other tests can fail: each page does one thing that weir's must not.
func TestAWatchCatches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, html, policy string
		want                 string // a part of the complaint; "" if there is to be none
	}{
		"nothing":            {script: `console`, policy: policy},
		"an error":           {script: `console.error('x')`, want: "the console says error"},
		"a warning":          {script: `console.warn('x')`, want: "the console says warning"},
		"a log":              {script: `console.log('x')`, want: "the console says log"},
		"an exception":       {script: `throw new Error('x')`, want: "an exception"},
		"a rejection":        {script: `Promise.reject(new Error('x'))`, want: "an exception"},
		"a dialog":           {script: `setTimeout(() => alert(1))`, want: "a dialog opens"},
		"a missing file":     {html: `<link rel="stylesheet" href="/none.css">`, want: "the browser logs error"},
		"an image elsewhere": {script: `new Image().src = 'http://elsewhere.example/x.png'`, want: "a request to another host"},
		"a fetch elsewhere":  {script: `fetch('http://elsewhere.example/').catch(() => 0)`, want: "a request to another host"},
		"a beacon elsewhere": {script: `navigator.sendBeacon('http://elsewhere.example/', 'x')`, want: "a request to another host"},
		"another port":       {script: `fetch('http://127.0.0.1:9/').catch(() => 0)`, want: "a request to another host"},
		"a socket":           {script: `new WebSocket('ws://elsewhere.example/')`, want: "a WebSocket to another host"},
		"a post":             {script: `fetch('/', {method: 'POST'})`, want: "a request that may write"},
		"an inline script":   {html: `<script>1</script>`, policy: policy, want: "the policy is violated: script-src"},
		"an inline handler":  {html: `<img src="data:," onerror="1">`, policy: policy, want: "the policy is violated: script-src"},
		"an inline style":    {html: `<p style="color: red">x</p>`, policy: policy, want: "the policy is violated: style-src"},
		"a forbidden image":  {script: `new Image().src = 'http://elsewhere.example/x.png'`, policy: policy, want: "the policy is violated: img-src"},
		"a forbidden fetch":  {script: `fetch('http://elsewhere.example/').catch(() => 0)`, policy: policy, want: "the policy is violated: connect-src"},
		"a frame":            {html: `<iframe src="/empty"></iframe>`, want: "a frame is made"},
		"a worker":           {script: `new Worker('/empty.js')`, want: "something runs beside the page: worker"},
		"a window":           {script: `window.open('/empty')`, want: "a window opens"},
		"an issue":           {html: `<p style="color: red">x</p>`, policy: policy, want: "an issue: ContentSecurityPolicyIssue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/":
					if c.policy != "" {
						w.Header().Set("Content-Security-Policy", c.policy)
					}
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					fmt.Fprintf(w, `<!doctype html><html lang="en"><title>x</title><link rel="icon" href="data:,">`+
						`<body data-state="ready">%s<script src="/page.js"></script></body></html>`, c.html)
				case "/page.js", "/empty.js":
					w.Header().Set("Content-Type", "text/javascript")
					if r.URL.Path == "/page.js" {
						fmt.Fprint(w, c.script)
					}
				case "/empty":
				default:
					http.NotFound(w, r)
				}
			}))
			t.Cleanup(site.Close)
			b := openBlank(t, site.URL, look{})
			b.load(site.URL + "/")
			for began := time.Now(); ; time.Sleep(15 * time.Millisecond) {
				b.settle()
				found := strings.Join(b.complaints(), "\n")
				if c.want == "" && len(b.asked("/page.js")) > 0 || c.want != "" && strings.Contains(found, c.want) {
					break
				}
				if time.Since(began) > patience {
					t.Fatalf("a page with %s brings %q, want %q: what the other tests watch for would not be seen", name, found, c.want)
				}
			}
			if c.want != "" {
				b.allow("")
			}
		})
	}
}

// chromedp drops an event that it cannot read, so that a watch would be blind to what it tells of.
func TestWhatTheDriverCannotReadIsAComplaint(t *testing.T) {
	c := &chromium{}
	c.note("unmarshal %s: %v", "Network.requestWillBeSent", "unknown value")
	if all := c.noted(); len(all) != 1 || !strings.Contains(all[0], "Network.requestWillBeSent") {
		t.Errorf("an event that was dropped brings %q, want one complaint that names it", all)
	}
}
