package browser

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// counted is what a list of rules says of one of them.
type counted struct {
	Domain, Path  string
	Hits, Refused int64
}

// listed returns the rows of the list that have numbers of a range.
func (b *tab) listed() []counted {
	b.Helper()
	return eval[[]counted](b, `[...document.querySelectorAll('tr.rule')].filter(e => Number(e.querySelector('.rate').dataset.hits) > 0).map(e => ({
		Domain: e.dataset.domain, Path: e.dataset.path, Hits: Number(e.querySelector('.rate').dataset.hits), Refused: Number(e.querySelector('.denied').dataset.refused)}))`)
}

// ranking asks the API what had hits in the range that is shown.
func (b *tab) ranking(w *weirtest.Weir) (all []counted) {
	b.Helper()
	var answer struct {
		Top []struct {
			Domain, Path string
			Hits, Over   int64
		}
	}
	from, to := b.shownRange()
	ask(b.T, w, "/top", url.Values{"values": {"false"}, "from": {fmt.Sprint(from)}, "to": {fmt.Sprint(to)}, "n": {"1000"}}, &answer)
	for _, row := range answer.Top {
		all = append(all, counted{row.Domain, row.Path, row.Hits, row.Over})
	}
	return all
}

// wantRanking wants the list to have the rules of the API's ranking with their very numbers, the highest first.
func (b *tab) wantRanking(want []counted, by func(counted) int64) {
	b.Helper()
	got := b.listed()
	if len(got) != len(want) || len(want) < 5 {
		b.Errorf("the list has %d rules with hits, and the API %d:\n%v\n%v", len(got), len(want), got, want)
	}
	is := make(map[string]counted)
	for _, c := range want {
		is[c.Domain+" "+c.Path] = c
	}
	for i, c := range got {
		if c != is[c.Domain+" "+c.Path] {
			b.Errorf("the list says %+v, the API %+v", c, is[c.Domain+" "+c.Path])
		}
		if i > 0 && by(c) > by(got[i-1]) {
			b.Errorf("%s %s with %d stands below %s with %d: people look at the top", c.Domain, c.Path, by(c), got[i-1].Path, by(got[i-1]))
		}
	}
}

const inRange = `document.querySelector('#lists [data-list=range]').getAttribute('aria-pressed') === 'true' && !document.querySelector('#rules[aria-busy]')`

// sorted returns a condition that a column is what the list is ranked by.
func sorted(column int) string {
	return fmt.Sprintf(`document.querySelector('#rules th:nth-child(%d)').ariaSort === 'descending'`, column)
}

// "Who was throttled last week?" is answered by two clicks, by keys, and by a link.
func TestListRanksTheChosenRange(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	to := time.Now().Truncate(24*time.Hour).Unix() - 86400 // so that nothing is counted meanwhile
	from := fmt.Sprint(to - 7*86400)
	b := open(t, w.Admin, look{fragment: fmt.Sprintf("%s&from=%s&to=%d", pay, from, to)})
	if n := len(b.listed()); n > 0 {
		t.Errorf("the list begins with the hits of a range in %d rows, want the rates of now", n)
	}
	b.click("#lists [data-list=range]")
	b.readyWith("the list of the range", inRange+" && "+sorted(3))
	want := b.ranking(w)
	b.wantRanking(want, func(c counted) int64 { return c.Refused })
	if b.listed()[0].Refused == 0 {
		t.Error("nothing was refused: this proves nothing")
	}
	b.do(chromedp.Focus(chromedp.CSS("#rules th:nth-child(2) button")))
	b.press(kb.Enter)
	b.readyWith("ranked by hits", sorted(2))
	b.wantRanking(want, func(c counted) int64 { return c.Hits })
	rows := b.listed()

	link := eval[string](b, `document.querySelector('#link').href`)
	for _, part := range []string{"list=range", "by=hits"} {
		if !strings.Contains(link, part) {
			t.Errorf("the link is %s, without %s", link, part)
		}
	}
	_, fragment, _ := strings.Cut(link, "#")
	other := open(t, w.Admin, look{fragment: "#" + fragment, dark: true})
	if !eval[bool](other, inRange+" && "+sorted(2)) {
		t.Error("the link leads to another list")
	}
	if again := other.listed(); fmt.Sprint(again) != fmt.Sprint(rows) {
		t.Errorf("the link leads to\n%v\nwant\n%v", again, rows)
	}

	b.click(`#lists [data-list=""]`)
	b.readyWith("the list of now, as it was ranked", `!location.hash.includes('list') && `+sorted(2))
	b.click("#rules th:nth-child(3) button")
	b.readyWith("ranked by what is refused again", sorted(3))
	b.readyWith("the list of now", `!location.hash.includes('list') && document.querySelector('#rules th:nth-child(2)').textContent === 'Hits/min'`)
}

// A rule that is configured no more has a past, which a click leads to.
func TestClickOpensARemovedRule(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	const past = `tr.rule[data-domain="shop"][data-path="__unmatched__"]`
	b := open(t, w.Admin, look{fragment: pay + "&range=365d&list=range", width: 360, height: 740})
	b.readyWith("the list of the year", inRange)
	b.wantNoSideScroll()
	b.do(b.prepare(look{}))
	if !eval[bool](b, `document.querySelector('`+past+`').hasAttribute('data-gone')`) {
		t.Error("what no rule matches is shown like a rule that is configured")
	}
	b.click(past)
	b.at("shop", "__unmatched__")
	b.wantTotalsOfAPI(w, "shop", "__unmatched__", "")
}
