package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// chromium is the one browser of all tests.
type chromium struct {
	ctx  context.Context
	stop func()

	mu     sync.Mutex
	errors []string // what its driver could not do, such as read an event: without it, a watch would see nothing
}

// startChromium starts the browser, which resolves no name of a host: what weir's page asks for has an address.
func startChromium() (*chromium, error) {
	binary, err := process.FindTool("chromium", "chromium-browser", "google-chrome")
	if err != nil {
		return nil, err
	}
	c := &chromium{}
	allocator, end := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(binary),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		// Its sandbox wants namespaces, which root in a container lacks. Nothing but weir's page is loaded.
		chromedp.Flag("no-sandbox", true),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("lang", "en-GB"),
		chromedp.Flag("hide-scrollbars", false),
		chromedp.Env("TZ=Europe/Berlin", "LANG=C.UTF-8"),
	)...)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(c.note))
	c.ctx, c.stop = ctx, func() { cancel(); end() }
	if err := chromedp.Do(ctx); err != nil {
		c.stop()
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	return c, nil
}

// note keeps what the driver reports. chromedp drops an event that it cannot read, and only says so here.
func (c *chromium) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors = append(c.errors, "the driver of the browser says: "+fmt.Sprintf(format, args...))
}

// noted returns what the driver has reported, and forgets it.
func (c *chromium) noted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.errors
	c.errors = nil
	return all
}

// tab is a tab of its own, with nothing of other tabs in it, on weir's page. It is as large as a laptop's.
type tab struct {
	*testing.T
	*watch
	ctx context.Context
}

// look is how a tab is to be.
type look struct {
	width, height int64
	dark          bool
	zoom          float64 // of the text and all else, 1 for none
	fragment      string
}

// open opens the page in a tab, and waits until it is drawn. When the test ends, whatever the page did that it must not
// do is an error.
func open(t *testing.T, at string, l look) *tab {
	t.Helper()
	b := openBlank(t, at, l)
	b.load(at + "/" + l.fragment)
	b.ready()
	return b
}

// openBlank opens an empty tab.
func openBlank(t *testing.T, at string, l look) *tab {
	t.Helper()
	b := &tab{T: t, watch: &watch{host: strings.TrimPrefix(at, "http://")}}
	ctx, cancel := chromedp.NewContext(shared.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(func(ev any) {
		b.event(ev)
		if _, opens := ev.(*page.EventJavascriptDialogOpening); opens {
			go b.closeDialog()
		}
	}))
	b.ctx = ctx
	t.Cleanup(func() {
		b.shoot(l)
		b.settle()
		cancel()
		for _, c := range append(b.complaints(), shared.noted()...) {
			t.Errorf("the page must not do this: %s", c)
		}
	})
	b.do(b.prepare(l))
	return b
}

// prepare sets a tab up before anything is loaded in it.
func (b *tab) prepare(l look) chromedp.Action[chromedp.Void] {
	if l.width == 0 {
		l.width, l.height = 1280, 900
	}
	if l.zoom == 0 {
		l.zoom = 1
	}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	return chromedp.Steps(
		// A zoomed page has fewer, larger pixels: this is how a browser zooms.
		call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: int64(float64(l.width) / l.zoom),
			Height: int64(float64(l.height) / l.zoom), DeviceScaleFactor: l.zoom, Mobile: l.width < 500}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}),
		// So that :focus-visible and document.hasFocus hold for a tab that is not in front.
		call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
		call(audits.Enable, cdp.Empty{}),
		call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: violations}))
}

// call is a command of the browser's protocol, whose answer does not matter.
func call[P, R any](command cdp.Command[P, R], parameters P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, parameters)
		return err
	})
}

// violations keeps what the Content-Security-Policy forbids and the page does nevertheless.
const violations = `window.violations = [];
document.addEventListener('securitypolicyviolation', e => window.violations.push(e.effectiveDirective + ' ' + e.blockedURI));`

// do runs actions, and ends the test if one fails.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx := b.ctx
	if chromedp.FromContext(ctx).Target != nil { // the first actions open the tab, which would end with a context that ends
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, process.Hang)
		defer cancel()
	}
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

func (b *tab) load(at string) {
	b.Helper()
	b.do(chromedp.Navigate(at))
}

// eval returns what an expression of the page's is.
func eval[T any](b *tab, expression string, options ...chromedp.EvaluateOption) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, process.Hang)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return got
}

// await polls until an expression is true.
func (b *tab) await(what, expression string) {
	b.Helper()
	for began := time.Now(); !eval[bool](b, "!!("+expression+")"); time.Sleep(30 * time.Millisecond) {
		if time.Since(began) > process.Hang {
			b.Fatalf("%s: not within %v: %s\nbody: %s", what, process.Hang, expression, eval[string](b, "document.body.innerText"))
		}
	}
}

// ready waits until all that was asked for is drawn.
func (b *tab) ready() {
	b.Helper()
	b.await("the page is drawn", "document.body && document.body.dataset.state === 'ready'")
}

// readyWith waits until all is drawn and something holds: what a click leads to may begin a moment after it.
func (b *tab) readyWith(what, expression string) {
	b.Helper()
	b.await(what, "document.body.dataset.state === 'ready' && ("+expression+")")
}

// closeDialog closes a dialog, which stops the page until then.
func (b *tab) closeDialog() {
	_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}) // it is a complaint already
}

// settle collects what only the page knows.
func (b *tab) settle() {
	ctx, cancel := context.WithTimeout(b.ctx, process.Hang)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string]("window.violations ?? (location.href === 'about:blank' ? [] : ['nobody watched'])"))
	if err != nil {
		b.complain("the tab does not answer: %v", err)
	}
	for _, v := range found {
		b.complain("the policy is violated: %s", v)
	}
	all, err := chromedp.Targets(ctx)
	if err != nil {
		b.complain("the browser does not answer: %v", err)
	}
	own := chromedp.FromContext(b.ctx).BrowserContextID // of other tabs, other tests know what may run
	for _, info := range all {
		browsers := strings.HasPrefix(info.URL, "chrome://")
		if info.BrowserContextID == own && info.Type != "page" && info.Type != "tab" && !browsers {
			b.complain("something runs beside the page: %s %s", info.Type, info.URL)
		}
	}
}

// click clicks in the middle of an element, as people do.
func (b *tab) click(selector string) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// press types keys where the focus is.
func (b *tab) press(keys string) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// screenshots is where pictures are kept for people to look at. git ignores it.
var screenshots, _ = filepath.Abs(filepath.FromSlash("../../../bin/screenshots"))

// shoot keeps a picture of the whole page as the test leaves it, for people; the short form only has those of what failed.
func (b *tab) shoot(l look) {
	if testing.Short() && !b.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, process.Hang)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	file := filepath.Join(screenshots, strings.ReplaceAll(fmt.Sprint(b.Name(), l, ".png"), "/", "-"))
	if err := errors.Join(err, os.MkdirAll(screenshots, 0o755), os.WriteFile(file, picture, 0o644)); err != nil {
		b.Errorf("a picture of the page: %v", err)
	}
}
