package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	payPath = "user/path=%2Fpay"
	pay     = "#domain=shop&path=user%2Fpath%3D%252Fpay"
)

// at waits until what is drawn is the view of the URL's fragment, which is as the page writes it, of this rule.
func (b *tab) at(domain, path string) {
	b.Helper()
	b.readyWith("the curve of "+domain+" "+path, fmt.Sprintf(
		`new URLSearchParams(location.hash.slice(1)).get('domain') === %q && new URLSearchParams(location.hash.slice(1)).get('path') === %q`+
			` && document.body.dataset.drawn === location.hash`, domain, path))
}

// drawn waits until the view of the URL's fragment is drawn, and something holds.
func (b *tab) drawn(what, expression string) {
	b.Helper()
	b.readyWith(what, "document.body.dataset.drawn === location.hash && ("+expression+")")
}

// band is what can be seen of an outcome in the curve.
type band struct {
	Outcome, D               string
	Left, Top, Width, Height float64
	Fill                     string
	InLeft, InTop, InW, InH  float64 // the svg's own
}

func (b *tab) bands() (visible map[string]band) {
	b.Helper()
	all := eval[[]band](b, `[...document.querySelectorAll('#chart path.band')].map(p => {
		const r = p.getBoundingClientRect(), s = document.querySelector('#chart').getBoundingClientRect();
		return {Outcome: p.dataset.outcome, D: p.getAttribute('d') ?? '', Left: r.left, Top: r.top, Width: r.width, Height: r.height,
			Fill: getComputedStyle(p).fill, InLeft: s.left, InTop: s.top, InW: s.width, InH: s.height};
	})`)
	visible = make(map[string]band)
	for _, s := range all {
		if s.D == "" {
			continue
		}
		visible[s.Outcome] = s
		if s.Outcome == "within" && (s.Width < 1 || s.Height < 1) { // a few hits of a year are no pixel high
			b.Errorf("the band of %s is %v by %v pixels: nobody sees it", s.Outcome, s.Width, s.Height)
		}
		if s.Left < s.InLeft-1 || s.Top < s.InTop-1 || s.Left+s.Width > s.InLeft+s.InW+1 || s.Top+s.Height > s.InTop+s.InH+1 {
			b.Errorf("the band of %s is drawn outside the chart: %+v", s.Outcome, s)
		}
		if s.Fill == "none" || s.Fill == "rgba(0, 0, 0, 0)" {
			b.Errorf("the band of %s has no colour", s.Outcome)
		}
	}
	return visible
}

func TestCurveIsDrawnInEveryRange(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	b := open(t, w.Admin, look{fragment: pay})
	for _, r := range []struct {
		name    string
		seconds int64
	}{{"1h", 3600}, {"1d", 86400}, {"7d", 7 * 86400}, {"30d", 30 * 86400}, {"365d", 365 * 86400}} {
		b.click(fmt.Sprintf("#ranges button[data-range='%s']", r.name))
		b.drawn("range "+r.name, fmt.Sprintf(`location.hash.includes('range=%s')`, r.name))
		pressed := eval[[]string](b, `[...document.querySelectorAll('#ranges [aria-pressed=true]')].map(e => e.dataset.range)`)
		if len(pressed) != 1 || pressed[0] != r.name {
			t.Errorf("range %s: the buttons %q are pressed, want this one alone", r.name, pressed)
		}
		if bands := b.bands(); bands["within"].D == "" || bands["over"].D == "" {
			t.Errorf("range %s: of what was within and refused, only %d bands are drawn", r.name, len(bands))
		}
		if from, to := b.shownRange(); to-from < r.seconds || to-from > r.seconds*107/100+120 {
			t.Errorf("range %s: %d seconds are shown, want %d or a bucket more", r.name, to-from, r.seconds)
		}
		b.wantTotalsOfAPI(w, "shop", payPath, "")
		if r.name != "1h" && r.name != "365d" { // of which less is stored
			b.wantSeen("#chart .before", "what went on before "+r.name)
		}
		if notes := eval[string](b, `document.querySelector('#notes').textContent`); strings.Contains(notes, "T00:00") {
			t.Errorf("range %s: times are written in two ways: %q", r.name, notes)
		}
	}
	heard := eval[string](b, `document.querySelector('#chart[role=img] > title').textContent`)
	if !strings.Contains(heard, "user/path=/pay") || !strings.Contains(heard, "hits") {
		t.Errorf("who hears the page is told of the curve %q, want what is seen in it", heard)
	}
	if n := eval[int](b, `document.querySelectorAll('#chart .limit').length`); n > 0 {
		t.Errorf("%d limits of each user are drawn across the sum of all users", n)
	}
	b.wantText("for each value of user", "for whom the limit holds")
	b.wantSeen("#chart .tier-border", "the borders of the tiers")
	b.wantSeen("#chart .peak", "the peaks")
}

// shownRange returns what the curve is of, in Unix seconds, by the link to exactly this view.
func (b *tab) shownRange() (from, to int64) {
	b.Helper()
	r := eval[[]int64](b, `(p => [Number(p.get('from')), Number(p.get('to'))])(new URLSearchParams(new URL(document.querySelector('#link').href).hash.slice(1)))`)
	return r[0], r[1]
}

// wantSeen wants something in the picture that is not hidden.
func (b *tab) wantSeen(selector, what string) {
	b.Helper()
	if !eval[bool](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].some(e => e.checkVisibility() && (r => r.width + r.height > 0)(e.getBoundingClientRect()))`, selector)) {
		b.Errorf("%s cannot be seen: nothing is at %s", what, selector)
	}
}

// What a rule on trial let pass is not refused, and what was decided without a store is shaded.
func TestShadowAndDegradedAreToldApart(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	b := open(t, w.Admin, look{fragment: "#domain=shop&path=remote_address&range=7d"})
	b.at("shop", "remote_address")
	bands := b.bands()
	if bands["shadow"].D == "" || bands["shadow"].Fill == bands["within"].Fill || bands["over"].D != "" {
		t.Errorf("of a rule in shadow mode the bands are %+v, want within and shadow, told apart, and nothing refused", bands)
	}
	b.wantTotalsOfAPI(w, "shop", "remote_address", "")
	b.reload(w.Admin + "/#domain=shop&path=user&range=7d")
	b.wantSeen("#chart .degraded-time", "the time without a store")
	if b.bands()["degraded"].D == "" {
		t.Error("what was decided without a store has no band")
	}
	b.wantTotalsOfAPI(w, "shop", "user", "")
}

func TestBackAndForwardFollowTheViews(t *testing.T) {
	t.Parallel()
	b := open(t, ofAYear(t).Admin, look{fragment: pay + "&range=1h"})
	b.click("#ranges button[data-range='7d']")
	b.drawn("a week", `location.hash.includes('range=7d')`)
	b.click(`tr.rule[data-domain="mail"][data-path="tenant"]`)
	b.at("mail", "tenant")
	b.do(chromedp.NavigateBack())
	b.at("shop", payPath)
	if got := eval[string](b, `document.querySelector('#ranges [aria-pressed=true]').dataset.range`); got != "7d" {
		t.Errorf("back leads to range %s, want 7d", got)
	}
	b.do(chromedp.NavigateBack())
	b.drawn("an hour", `location.hash.includes('range=1h')`)
	b.do(chromedp.NavigateForward())
	b.drawn("a week again", `location.hash.includes('range=7d')`)
	b.do(chromedp.NavigateForward())
	b.at("mail", "tenant")
	if got := eval[string](b, `document.querySelector('#name').textContent`); got != "tenant" {
		t.Errorf("forward leads to the rule %q, want tenant", got)
	}
	if got := eval[[]string](b, `[...document.querySelectorAll('tr.rule[aria-current]')].map(e => e.dataset.path)`); len(got) != 1 || got[0] != "tenant" {
		t.Errorf("the rows %q are marked, want that of the rule that is shown", got)
	}
}

// What the link shows in another browser is what was seen. Of a range that ends now the last bucket is not over, and
// its rate falls from second to second; of one that is over, the picture is the same to the last point.
func TestLinkReopensTheSameView(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	const numbers = `[document.querySelector('#name').textContent, document.querySelector('#domain').textContent, document.querySelector('#about').textContent,
		document.querySelector('#chart > title').textContent, document.querySelector('#totals').innerText, document.querySelector('#values').innerText,
		...[...document.querySelectorAll('#legend [aria-pressed=true]')].map(e => 'only ' + e.textContent), document.querySelector('#link').href]`
	const picture = `[...document.querySelectorAll('#chart path.band')].map(p => p.dataset.outcome + p.getAttribute('d'))`
	from, to := aWeek()
	for fragment, seen := range map[string]string{
		"#domain=mail&path=tenant&value=tenant%3Dacme&range=30d":                   numbers,
		fmt.Sprintf("#domain=shop&path=user&outcome=over&from=%d&to=%d", from, to): numbers + ".concat(" + picture + ")",
	} {
		b := open(t, w.Admin, look{fragment: fragment})
		b.drawn("the curve of "+fragment, "true")
		link, want := eval[string](b, `document.querySelector('#link').href`), eval[[]string](b, seen)
		for _, part := range []string{"from=", "to=", "domain=", "path="} {
			if !strings.Contains(link, part) {
				t.Errorf("the link of %s is %s, without %s", fragment, link, part)
			}
		}
		other := openBlank(t, w.Admin, look{})
		other.load(link)
		other.ready()
		got := eval[[]string](other, seen)
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Errorf("the link of %s shows, as part %d of %d (want %d),\n%.500q\nwant what was seen:\n%.500q", fragment, i, len(got), len(want), got[min(i, len(got)-1)], want[i])
			}
		}
	}
}

func TestRangeCanBePicked(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	b := open(t, w.Admin, look{fragment: pay})
	set := func(id, value string) {
		b.do(chromedp.SetValue(chromedp.CSS("#"+id), value))
	}
	day := eval[string](b, `new Date(Date.now() - 20 * 864e5).toLocaleDateString('sv')`)
	set("from", day+" 06:00")
	set("to", day+" 18:00")
	b.click("#apply")
	b.drawn("twelve hours", `location.hash.includes('from=')`)
	if from, to := b.shownRange(); to-from != 12*3600 {
		t.Errorf("from 6 to 18 o'clock is %d seconds, want 12 hours", to-from)
	}
	if pressed := eval[int](b, `document.querySelectorAll('#ranges [aria-pressed=true]').length`); pressed != 0 {
		t.Errorf("%d buttons of ranges are pressed, though the range is none of theirs", pressed)
	}
	b.wantTotalsOfAPI(w, "shop", payPath, "")
	set("to", day+" 05:00")
	b.click("#apply")
	b.await("a sentence about the range", `/before/.test(document.querySelector('#message').textContent)`)
}

func TestValuesOfARuleAreShown(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	b := open(t, w.Admin, look{fragment: "#domain=mail&path=tenant&range=30d"})
	b.at("mail", "tenant")
	all := eval[[]string](b, `[...document.querySelectorAll('#values tr.value')].map(e => e.dataset.value)`)
	if len(all) < 3 {
		t.Fatalf("the values of tenant are %q, want acme, globex and initech at least", all)
	}
	from, to := aWeek()
	b.reload(w.Admin + fmt.Sprintf("/#domain=mail&path=tenant&from=%d&to=%d", from, to)) // acme began its loop in it
	b.wantText("denied at least once every hour since", "since when it is so, and no more than is known")
	b.click(`#values tr.value[data-value="tenant=acme"]`)
	b.drawn("acme", `new URLSearchParams(location.hash.slice(1)).get('value') === 'tenant=acme'`)
	b.wantTotalsOfAPI(w, "mail", "tenant", "tenant=acme")
	b.click("#all-values")
	b.drawn("all values", `!new URLSearchParams(location.hash.slice(1)).has('value')`)
	b.wantTotalsOfAPI(w, "mail", "tenant", "")
}

// Who has no mouse finds every rule by the filter, and reads every bucket.
func TestKeyboardReachesEveryRuleAndBucket(t *testing.T) {
	t.Parallel()
	b := open(t, ofAYear(t).Admin, look{fragment: pay + "&range=1d"})
	found := func(filter, want string) {
		t.Helper()
		b.press(filter)
		b.await("the rules that "+filter+" finds, "+want,
			fmt.Sprintf(`[...document.querySelectorAll('tr.rule')].map(e => e.dataset.domain + ' ' + e.dataset.path).join() === %q`, want))
	}
	if n := eval[int](b, `document.querySelectorAll('tr.rule').length`); n < 10 {
		t.Errorf("there are %d rules, want all those of shop and mail", n)
	}
	b.press("/")
	b.await("/ leads to the filter", `document.activeElement.id === 'filter'`)
	found("PAY", "shop "+payPath)
	found("nothing", "")
	b.wantSeen("#more", "a sentence that nothing is found")
	b.press(strings.Repeat(kb.Backspace, len("PAYnothing")))
	found("tenant", "mail tenant")
	b.press(kb.ArrowDown)
	b.press(kb.Enter)
	b.at("mail", "tenant")
	b.do(chromedp.Focus(chromedp.CSS("#plot")))
	b.press(kb.End)
	b.await("the last bucket is read", `Number(document.querySelector('#plot').getAttribute('aria-valuenow')) > 0`)
	last := eval[string](b, `document.querySelector('#plot').getAttribute('aria-valuetext')`)
	b.press(kb.ArrowLeft)
	b.await("the bucket before it", fmt.Sprintf(`document.querySelector('#plot').getAttribute('aria-valuetext') !== %q`, last))
	if text := eval[string](b, `document.querySelector('#reading').textContent`); !strings.Contains(text, "within") {
		t.Errorf("what is read of a bucket is %q, without its hits", text)
	}
	b.wantSeen("#reading", "what is read of a bucket, beside it")
}
