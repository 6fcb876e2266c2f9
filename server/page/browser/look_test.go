package browser

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// looks are the ways in which people see the page.
var looks = map[string]look{
	"light":       {},
	"dark":        {dark: true},
	"phone":       {width: 360, height: 740},
	"phone-dark":  {width: 360, height: 740, dark: true},
	"tablet":      {width: 768, height: 1024},
	"narrow":      {width: 1000, height: 900},
	"laptop":      {width: 1400, height: 900},
	"zoom-200":    {zoom: 2},
	"wide":        {width: 1920, height: 1080},
	"phone-small": {width: 320, height: 568},
}

// Nothing is cut off at the side, whoever looks: what is wider than the window would need a second scroll bar.
func TestPageFitsEveryWindow(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	for name, l := range looks {
		if testing.Short() && !slices.Contains([]string{"dark", "zoom-200", "wide", "phone-small"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l.fragment = "#domain=mail&path=tenant&range=7d"
			b := open(t, w.Admin, l)
			b.wantNoSideScroll()
			b.bands()
			if edges := eval[[]float64](b, `['header', 'main', 'footer'].map(e => document.querySelector(e).getBoundingClientRect().left)`); edges[0] != edges[1] || edges[2] != edges[1] {
				b.Errorf("header, main part and footer begin at %v pixels: they are one page", edges)
			}
			phone := l.width != 0 && l.width < 500
			if phone {
				b.wantOneScroll()
				if end := eval[int64](b, `Math.round(document.querySelector('#chart').getBoundingClientRect().bottom + scrollY)`); l.height > 700 && end > l.height {
					b.Errorf("the curve ends at %d pixels, below a first screen of %d", end, l.height)
				}
			}
			if !testing.Short() || l.dark || phone {
				b.wantNothingAmiss()
			}
		})
	}
}

func (b *tab) wantNoSideScroll() {
	b.Helper()
	type size struct {
		Inner, Scroll int
		Wide          []string
	}
	s := eval[size](b, `({Inner: innerWidth, Scroll: document.documentElement.scrollWidth, Wide: [...document.querySelectorAll('body *')]
		.filter(e => e.checkVisibility() && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest('.scroll, .hidden'))
		.map(e => e.tagName + '#' + e.id + '.' + (e.getAttribute('class') ?? '')).slice(0, 8)})`)
	for _, out := range eval[[]string](b, `[...document.querySelectorAll('#view > *, #view section, #view table, #picked, .card, #list > *')].filter(e => e.checkVisibility() &&
		e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 || e.getBoundingClientRect().right > e.closest('main > *').getBoundingClientRect().right + 1).map(e => e.outerHTML.slice(0, 60))`) {
		b.Errorf("this sticks out of what it is in, or is cut off there: %s", out)
	}
	if s.Scroll > s.Inner {
		b.Errorf("the page is %d pixels wide in a window of %d: it scrolls to the side; what is too wide: %q", s.Scroll, s.Inner, s.Wide)
	}
}

// A limit holds for each key: the curve of one key has its line, named beside the bars; the sum of many keys has none, as
// it would be read as that of all.
func TestLimitLineNeedsASingleKey(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	for _, l := range []look{{}, {width: 360, height: 740}} {
		if testing.Short() && l.width == 0 {
			continue
		}
		l.fragment = "#domain=mail&path=tenant&value=tenant%3Dacme&range=7d"
		b := open(t, w.Admin, l)
		if names := eval[string](b, `[...document.querySelectorAll('.limit-label')].map(e => e.textContent).join()`); names != "600/hour" {
			t.Errorf("%d pixels: the limits of one tenant are called %q", l.width, names)
		}
		for _, text := range eval[[]string](b, `(bars => [...document.querySelectorAll('#chart text')].filter(e => (r => r.right > bars.left + 1 && r.left < bars.right - 1
			&& r.bottom > bars.top + 1 && r.top < bars.bottom - 1)(e.getBoundingClientRect())).map(e => e.textContent))(document.querySelector('.band').getBoundingClientRect())`) {
			t.Errorf("%d pixels: %q lies on the bars, where it can be read of neither", l.width, text)
		}
	}
}

// A limit that somebody thinks about is drawn over the curve, with how many minutes it would have cut.
func TestNewLimitCanBeTried(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	from, to := aWeek()
	b := open(t, w.Admin, look{fragment: fmt.Sprintf("#domain=shop&path=route%%3Dsearch&from=%d&to=%d", from, to)})
	if cuts := eval[string](b, `document.querySelector('#cuts').textContent`); cuts != "" {
		t.Errorf("without a limit it says %q", cuts)
	}
	b.do(chromedp.Focus(chromedp.CSS("#limit"), chromedp.NodeVisible))
	b.press("12\r")
	b.drawn("how many minutes the limit would have cut", `document.querySelector('#cuts').textContent !== ''`)
	if names := eval[string](b, `[...document.querySelectorAll('.limit-label')].map(e => e.textContent).sort().join()`); !strings.Contains(names, "12/min?") {
		t.Errorf("the limits are called %q", names)
	}
	a, most := answer{}, make(map[int64]int64) // the largest minutes, by bucket
	step := eval[int64](b, `Number(new URL(performance.getEntriesByType('resource').map(e => e.name).filter(u => u.includes('history?') && u.includes('search')).at(0)).searchParams.get('step'))`)
	ask(t, w, "", url.Values{"domain": {"shop"}, "path": {"route=search"}, "from": {fmt.Sprint(from)}, "to": {fmt.Sprint(to)},
		"step": {fmt.Sprintf("%dm", step/60)}}, &a)
	for _, s := range a.Series {
		for _, p := range s.Points {
			if s.Outcome != "near" {
				most[p.Start] += p.Peak
			}
		}
	}
	cut := 0
	for _, peak := range most {
		if peak > 12 {
			cut++
		}
	}
	want := fmt.Sprintf("cuts at least %d minutes of all callers", cut)
	if cuts := eval[string](b, `document.querySelector('#cuts').textContent`); cuts != want || cut == 0 {
		t.Errorf("it says %q, want %q", cuts, want)
	}
	if hash := eval[string](b, `location.hash`); !strings.Contains(hash, "limit=12") {
		t.Errorf("the link is %s, want the limit in it", hash)
	}
}

// wantOneScroll wants nothing to scroll inside of the page: fingers would be caught there.
func (b *tab) wantOneScroll() {
	b.Helper()
	for _, inner := range eval[[]string](b, `[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && e.scrollHeight > e.clientHeight + 1
		&& /auto|scroll/.test(getComputedStyle(e).overflowY)).map(e => e.outerHTML.slice(0, 80))`) {
		b.Errorf("this scrolls inside of what scrolls: %s", inner)
	}
}

// axe-core measures the contrast of text in HTML. WCAG 2.2 AA asks for 4.5 of text in the curve, too, and for 3 of a band.
func TestCurveHasContrastInBothThemes(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	for _, dark := range []bool{false, true} {
		b := open(t, w.Admin, look{dark: dark, fragment: pay + "&range=7d"})
		b.wantNothingAmiss()
		type drawn struct {
			What     string
			Text     bool
			Contrast float64
		}
		all := eval[[]drawn](b, `(() => {
			const colour = text => { const c = new axe.commons.color.Color(); c.parseString(text); return c; };
			const panel = colour(getComputedStyle(document.querySelector('#view')).backgroundColor);
			return [...document.querySelectorAll('#chart text, #chart path.band')].map(e => [e, getComputedStyle(e).fill])
				.filter(([e, fill]) => e.checkVisibility() && !fill.startsWith('url')) // url: hatched
				.map(([e, fill]) => ({What: e.dataset.outcome ?? e.textContent, Text: e.tagName === 'text',
					Contrast: axe.commons.color.getContrast(panel, colour(fill))}));
		})()`)
		if len(all) < 12 {
			t.Errorf("only %d things are drawn in the curve: this proves nothing", len(all))
		}
		for _, d := range all {
			if d.Contrast < 3 || d.Text && d.Contrast < 4.5 {
				t.Errorf("dark %v: %q has a contrast of %.2f, want 3, of text 4.5", dark, d.What, d.Contrast)
			}
		}
		for _, small := range eval[[]string](b, `[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() &&
			e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 11).map(e => e.outerHTML.slice(0, 80))`) {
			t.Errorf("dark %v: this is written in less than 11 pixels: %s", dark, small)
		}
	}
}

// Whoever has no mouse comes to everything that can be used, and sees where they are.
func TestTabKeyReachesEverything(t *testing.T) {
	t.Parallel()
	fragments := []string{"#domain=mail&path=tenant&range=7d", "#range=7d"}
	if testing.Short() {
		fragments = fragments[:1]
	}
	for _, fragment := range fragments {
		b := open(t, ofAYear(t).Admin, look{fragment: fragment})
		want := eval[[]string](b, `[...document.querySelectorAll('button, input, a[href], [tabindex="0"]')].filter(e => e.checkVisibility() && !e.closest('.hidden')
		&& !e.closest('tr.rule:not([tabindex="0"])') && e.tabIndex >= 0 && !e.disabled).map((e, i) => e.dataset.stop = String(i))`)
		reached := make(map[string]bool)
		for range 3*len(want) + 30 { // a field for times has several stops
			b.press(kb.Tab)
			type stop struct {
				Stop, What string
				Visible    bool
			}
			s := eval[stop](b, `(e => ({Stop: e.dataset.stop ?? '', What: e.tagName + '#' + e.id + ' ' + e.textContent.slice(0, 30),
			Visible: (s => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1 || s.boxShadow !== 'none')(getComputedStyle(e))}))(document.activeElement)`)
			if s.Stop == "" {
				continue // the browser's own stops, or the page as a whole
			}
			if !s.Visible {
				b.Errorf("the tab key comes to %s, and nobody sees that", s.What)
			}
			if reached[s.Stop] = true; len(reached) == len(want) {
				break
			}
		}
		for _, stop := range want {
			// What the page has drawn anew meanwhile has lost its number, and is reached without one.
			there := eval[bool](b, fmt.Sprintf(`document.querySelector('[data-stop="%s"]') !== null`, stop))
			if !reached[stop] && there {
				b.Errorf("the tab key does not come to %s", eval[string](b, fmt.Sprintf(`(e => e.outerHTML.slice(0, 120))(document.querySelector('[data-stop="%s"]'))`, stop)))
			}
		}
	}
}
