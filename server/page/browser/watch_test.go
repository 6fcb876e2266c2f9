package browser

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// watch notes what a tab does that the page must never do. Its methods may be called by many goroutines at once.
type watch struct {
	host string // host:port that may be asked

	mu      sync.Mutex
	allowed []string // parts of complaints that a test has brought about
	found   []string
}

// allow takes complaints that hold this text as what a test expects.
func (w *watch) allow(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allowed = append(w.allowed, text)
}

func (w *watch) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = append(w.found, fmt.Sprintf(format, args...))
}

// complaints returns what was found and no test expects.
func (w *watch) complaints() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.found {
		if !slices.ContainsFunc(w.allowed, func(text string) bool { return strings.Contains(c, text) }) {
			all = append(all, c)
		}
	}
	return all
}

// event takes what the browser tells of a tab. It runs on the goroutine that reads the browser's messages.
func (w *watch) event(ev any) {
	switch ev := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		w.complain("the console says %s: %s", ev.Type, inJSON(ev.Args))
	case *runtime.EventExceptionThrown:
		w.complain("an exception: %s", inJSON(ev.ExceptionDetails))
	case *log.EventEntryAdded:
		w.complain("the browser logs %s of %s: %s %s", ev.Entry.Level, ev.Entry.Source, ev.Entry.Text, ev.Entry.URL)
	case *audits.EventIssueAdded:
		w.complain("an issue: %s %s", ev.Issue.Code, inJSON(ev.Issue.Details))
	case *page.EventJavascriptDialogOpening:
		w.complain("a dialog opens: %s %q", ev.Type, ev.Message)
	case *page.EventWindowOpen:
		w.complain("a window opens: %s", ev.URL)
	case *page.EventFrameAttached:
		w.complain("a frame is made: %s", ev.FrameID)
	case *network.EventRequestWillBeSent:
		w.request(ev.Request.Method, ev.Request.URL)
	case *network.EventWebSocketCreated:
		w.complain("a WebSocket to another host: %s", ev.URL)
	case *network.EventWebTransportCreated:
		w.complain("a WebTransport to another host: %s", ev.URL)
	case *network.EventLoadingFailed:
		if !ev.Canceled {
			w.complain("a request fails: %s %s", ev.ErrorText, ev.BlockedReason)
		}
	}
}

// request notes one request, which must be a question to weir.
func (w *watch) request(method, of string) {
	u, err := url.Parse(of)
	switch {
	case err != nil:
		w.complain("a request to another host: %s cannot be read: %v", of, err)
	case u.Scheme == "data": // is not sent
	case u.Scheme != "http" || u.Host != w.host:
		w.complain("a request to another host: %s %s", method, of)
	case method != "GET" && method != "HEAD":
		w.complain("a request that may write: %s %s", method, of)
	}
}

// inJSON writes what the browser tells, for a message.
func inJSON(told any) string {
	text, _ := json.Marshal(told)
	return string(text)
}
