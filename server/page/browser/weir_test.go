package browser

import (
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// shared is the browser of all tests.
var shared *chromium

func TestMain(m *testing.M) {
	if code, ran := inOwnNetwork(); ran {
		os.Exit(code)
	}
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "before the tests:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if shared, err = startChromium(); err != nil {
		return 0, err
	}
	defer shared.stop()
	defer endOutliving()
	return m.Run(), nil
}

// serve starts a weir with descriptor files by their names. Its history has what was counted soon.
func serve(t testing.TB, files map[string]string, settings ...string) *weirtest.Weir {
	t.Helper()
	return weirtest.ServeFiles(t, files, append(settings, "HISTORY_FLUSH_INTERVAL=1s")...)
}

// answer is what the API says of a history.
type answer struct {
	Series []struct {
		Outcome         string
		Total, Lifetime int64
		Points          []struct{ Start, Peak int64 }
	}
}

// ask asks the API for a history, or for what stands below it.
func ask(t *testing.T, w *weirtest.Weir, below string, parameters url.Values, into any) {
	t.Helper()
	if err := weirtest.GetJSON(w.Admin+"/api/v1/history"+below+"?"+parameters.Encode(), into); err != nil {
		t.Fatal(err)
	}
}

// hits are requests of one descriptor, its keys and values in turn.
type hits struct {
	times   int
	domain  string
	entries []string
}

// send sends requests, whose verdict does not matter, and waits until what was counted has reached the history.
func send(t testing.TB, w *weirtest.Weir, all ...hits) {
	t.Helper()
	c := w.Client(t)
	for _, h := range all {
		for range h.times {
			if _, err := c.Ask(h.domain, weirtest.Describe(h.entries...)); err != nil {
				t.Fatalf("asking for %q in %q: %v", h.entries, h.domain, err)
			}
		}
	}
	w.Eventually(t, "all that was counted is in the history", func() error {
		m, err := weirtest.Scrape(w.Admin + "/metrics")
		counted := m.Sum("weir_hits_total", "") + m.Sum("weir_near_hits_total", "")
		if landed := m.Sum("weir_history_landed_hits_total", ""); err == nil && (counted == 0 || counted != landed) {
			err = fmt.Errorf("%v hits have been counted, and %v are in the history", counted, landed)
		}
		return err
	})
}
