package browser

import (
	"math/big"
	"net/url"
	"strings"
)

// wantTotalsOfAPI wants the page's numbers to be those of the JSON API, to the last hit. What the page shows and the
// range that it is of are read at one moment.
func (b *tab) wantTotalsOfAPI(w *weir, domain, path, value string) {
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
	want := make(map[string]*big.Int)
	for _, kind := range []string{"total", "lifetime"} {
		for _, outcome := range []string{"within", "over", "degraded", "near", "shadow"} {
			want[kind+outcome] = new(big.Int)
		}
	}
	for _, s := range w.ask(b.T, question).Series {
		add := func(kind, number string) {
			n, ok := new(big.Int).SetString(number, 10)
			if !ok {
				b.Fatalf("the API answers a %s of %q", kind, number)
			}
			want[kind+s.Outcome].Add(want[kind+s.Outcome], n)
		}
		add("total", s.Total.String())
		add("lifetime", s.Lifetime.String())
	}
	for _, kind := range []string{"total", "lifetime"} {
		all := new(big.Int).Add(want[kind+"within"], want[kind+"over"])
		want[kind+"hits"] = all.Add(all, want[kind+"degraded"])
		want[kind+"over"].Sub(want[kind+"over"], want[kind+"shadow"]) // refused
	}
	seen := 0
	for _, n := range got.Numbers {
		is, known := want[n.Kind+n.Outcome]
		if !known || n.Hits != is.String() || strings.ReplaceAll(n.Text, ",", "") != n.Hits {
			b.Errorf("the page says %s %s is %s, written %q; the API says %v, of %v", n.Kind, n.Outcome, n.Hits, n.Text, is, question)
		}
		seen++
	}
	if want["totalhits"].Sign() == 0 || seen < 8 {
		b.Errorf("the page has %d numbers, and the API %v hits: this proves nothing", seen, want["totalhits"])
	}
}
