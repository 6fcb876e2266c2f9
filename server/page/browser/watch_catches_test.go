package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// The other tests can fail: a page that does what weir's must not is complained of.
func TestBrowserWatchReportsForbiddenBehaviour(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `console.error('said'); fetch('/written', {method: 'POST'}); setTimeout(() => alert(1));
				new Image().src = 'http://elsewhere.example/x.png'; throw new Error('thrown')`)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src data:")
		fmt.Fprint(w, `<!doctype html><html lang="en"><title>x</title><link rel="icon" href="data:,"><script>1</script><script src="/a.js"></script>`)
	}))
	t.Cleanup(site.Close)
	b := openBlank(t, site.URL, look{})
	b.load(site.URL + "/")
	missed := []string{"the console says error", "a request that may write", "a dialog opens", "Error: thrown",
		"the policy is violated: img-src", "the policy is violated: script-src"}
	for began := time.Now(); len(missed) > 0; time.Sleep(15 * time.Millisecond) {
		b.settle()
		found := strings.Join(b.complaints(), "\n")
		missed = slices.DeleteFunc(missed, func(want string) bool { return strings.Contains(found, want) })
		if time.Since(began) > process.Hang {
			t.Fatalf("nobody complains of %q: what the other tests watch for would not be seen", missed)
		}
	}
	b.allow("")
}
