package browser

import (
	"strings"
	"testing"
)

// A page of the web whose name is pointed to this host is of the same origin as weir's port to a browser, and could read
// whatever it answers.
func TestAReboundNameReadsNothing(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"shop.yaml": "domain: shop\ndescriptors:\n" +
		"- {key: user, value_to_metric: true, rate_limit: {requests_per_unit: 1, unit: hour}}\n"})
	for range 2 {
		if err := w.post("shop", "user", "ann"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.settled(); err != nil {
		t.Fatal(err)
	}
	own := openBlank(t, w.admin, look{})
	own.allow("favicon.ico") // /livez is no page
	own.load(w.admin + "/livez")
	at := strings.Replace(w.admin, "127.0.0.1", rebound, 1)
	evil := openBlank(t, at, look{})
	evil.allow("421 (Misdirected Request)")
	evil.load(at + "/livez")
	for _, path := range []string{"/api/v1/denials?values=true", "/api/v1/counters/top?domain=shop", "/api/v1/history/top",
		"/prometheus/api/v1/label/value/values", "/api/v1/rules", "/"} {
		if told := own.fetch(path); !strings.HasPrefix(told, "200 ") || strings.HasPrefix(path, "/api/v1/h") && !strings.Contains(told, "ann") {
			t.Errorf("weir's own page is answered %s with %s; it would read nothing either", path, told)
		}
		if told := evil.fetch(path); !strings.HasPrefix(told, "421 ") || !strings.Contains(told, "ADMIN_HOSTS") {
			t.Errorf("a rebound name reads of %s: %s", path, told)
		}
	}
}

// fetch returns the status and the body that the page is answered with.
func (b *tab) fetch(path string) string {
	b.Helper()
	eval[bool](b, `window.told = null, fetch('`+path+`').then(async r => window.told = r.status + ' ' + await r.text()), true`)
	b.await("an answer", "window.told !== null")
	return eval[string](b, "window.told")
}
