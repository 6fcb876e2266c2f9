package browser

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// wantTotalsOfAPI wants the page's numbers to be those of the JSON API, to the last hit. What the page shows and the
// range that it is of are read at one moment.
func (b *tab) wantTotalsOfAPI(w *weirtest.Weir, domain, path, value string) {
	b.Helper()
	type number struct{ Kind, Outcome, Hits, Text string }
	type shown struct {
		Link    string
		Numbers []number
	}
	got := eval[shown](b, `({Link: document.querySelector('#link').href,
		Numbers: [...document.querySelectorAll('#totals [data-total], #totals [data-lifetime]')].map(e => ({
			Kind: e.dataset.total ? 'total' : 'lifetime', Outcome: e.dataset.total ?? e.dataset.lifetime, Hits: e.dataset.hits, Text: e.textContent}))})`)
	u, err := url.Parse(got.Link)
	if err != nil {
		b.Fatal(err)
	}
	view, err := url.ParseQuery(u.Fragment)
	if err != nil {
		b.Fatal(err)
	}
	question := url.Values{"domain": {domain}, "path": {path}, "from": {view.Get("from")}, "to": {view.Get("to")}}
	if value != "" {
		question.Set("value", value)
	}
	want, asked := make(map[string]int64), answer{}
	ask(b.T, w, "", question, &asked)
	for _, s := range asked.Series {
		want["total"+s.Outcome] += s.Total
		want["lifetime"+s.Outcome] += s.Lifetime
	}
	for _, kind := range []string{"total", "lifetime"} {
		want[kind+"hits"] = want[kind+"within"] + want[kind+"over"] + want[kind+"shadow"] + want[kind+"degraded"]
	}
	seen := 0
	for _, n := range got.Numbers {
		is := strconv.FormatInt(want[n.Kind+n.Outcome], 10)
		if n.Hits != is || strings.ReplaceAll(n.Text, ",", "") != n.Hits {
			b.Errorf("the page says %s %s is %s, written %q; the API says %s, of %v", n.Kind, n.Outcome, n.Hits, n.Text, is, question)
		}
		seen++
	}
	if want["totalhits"] == 0 || seen < 8 {
		b.Errorf("the page has %d numbers, and the API %v hits: this proves nothing", seen, want["totalhits"])
	}
}
