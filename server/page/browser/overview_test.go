package browser

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// aWeek is a week that is over, so that nothing is counted in it meanwhile.
func aWeek() (from, to int64) {
	to = time.Now().Unix()/86400*86400 - 86400
	return to - 7*86400, to
}

// refusedIn returns what the API has as refused in a range.
func refusedIn(t *testing.T, w *weirtest.Weir, from, to int64) (refused int64) {
	t.Helper()
	a := answer{}
	ask(t, w, "", url.Values{"from": {fmt.Sprint(from)}, "to": {fmt.Sprint(to)}}, &a)
	for _, s := range a.Series {
		refused += map[string]int64{"over": s.Total}[s.Outcome]
	}
	return refused
}

// What is refused, of whom, and was it so a week before? The page that opens first answers.
func TestOverviewShowsDenialsOfEachDomain(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	from, to := aWeek()
	short := []string{"overview", "overview-phone", "overview-320"}
	for name, l := range map[string]look{"overview": {}, "overview-dark": {dark: true}, "overview-tablet": {width: 768, height: 1024},
		"overview-phone": {width: 390, height: 800}, "overview-320": {width: 320, height: 700}} {
		if testing.Short() && !slices.Contains(short, name) {
			continue
		}
		l.fragment = fmt.Sprintf("#from=%d&to=%d", from, to)
		b := open(t, w.Admin, l)
		type card struct {
			Name    string
			Refused int64
		}
		cards := eval[[]card](b, `[...document.querySelectorAll('.card')].map(e => ({Name: e.querySelector('strong').textContent,
			Refused: Number(e.querySelector('.over-text b')?.textContent.replaceAll(',', '') ?? 0)}))`)
		if len(cards) < 8 || cards[0].Name != "tenant" || cards[0].Refused <= cards[1].Refused {
			t.Errorf("%s: the rules stand as %+v, want at least 8, that which refused most first", name, cards)
		}
		drawn := refusedIn(t, w, from, to)
		if got := eval[string](b, `document.querySelector('[data-sum=over]').dataset.hits`); got != fmt.Sprint(drawn) || drawn == 0 {
			t.Errorf("%s: %s hits were refused, the API says %d", name, got, drawn)
		}
		week := strconv.FormatInt(refusedIn(t, w, from-7*86400, to-7*86400), 10)
		if got := eval[string](b, `document.querySelector('[data-earlier=over]').textContent`); strings.ReplaceAll(got, ",", "") != week {
			t.Errorf("%s: a week before %s hits were refused, the API says %s", name, got, week)
		}
		b.wantSeen("#chart .before", "the curve of a week before")
		b.wantText("tenant=acme", "who was refused")
		b.wantNoSideScroll()
		if end := eval[float64](b, `Math.max(...['#tiles', '#chart', '.card'].map(e => document.querySelector(e).getBoundingClientRect().bottom + scrollY))`); name == "overview-phone" && end > float64(l.height) {
			t.Errorf("sums, curve and the rule that refused most end at %v pixels, below a first screen of %d", end, l.height)
		}
		if !testing.Short() || l.width == 0 {
			b.wantNothingAmiss()
		}
	}
}

// By keys alone from all rules to one domain's, and to one rule.
func TestKeyboardLeadsFromOverviewToRule(t *testing.T) {
	t.Parallel()
	b := open(t, ofAYear(t).Admin, look{fragment: "#range=7d"})
	b.do(chromedp.Focus(chromedp.CSS(".card")))
	b.press(kb.Enter)
	b.at("mail", "tenant")
	b.do(chromedp.Focus(chromedp.CSS("#domain a:last-child")))
	b.press(kb.Enter)
	b.drawn("the domain", `document.querySelector('#name').textContent === 'mail'`)
	if names := eval[[]string](b, `[...document.querySelectorAll('.card strong')].map(e => e.textContent)`); len(names) != 2 {
		t.Errorf("the small curves of mail are %q, want those of its rules with hits", names)
	}
	b.do(chromedp.Focus(chromedp.CSS("#domain a")))
	b.press(kb.Enter)
	b.drawn("all rules", `document.querySelector('#name').textContent === 'Overview'`)
}

// Keys are listed of the half to whole minute that counters top looks back, and rates are of the last five: a machine that
// takes longer to show them begins again.
func TestDeniedKeysAreListed(t *testing.T) {
	t.Parallel()
	const limits = `{domain: a, descriptors: [{key: user, rate_limit: {requests_per_unit: 3, unit: day}},
		{key: trial, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: day}}]}`
	const head, rules = `^Who was denied in the last \d+ s[^;]*; `, `; 3/day \S+ 20 %\S+, 1/day · shadow mode \S+ 0 %$`
	for fragment, keys := range map[string]string{"": "1 key was denied; user=ann 1 4",
		"#domain=a&path=user": "1 key was denied; user=ann 1 4"} {
		for quick := false; !quick; {
			w, began := serve(t, map[string]string{"a.yaml": limits}), time.Now()
			send(t, w, hits{2, "a", []string{"trial", "on"}}, hits{4, "a", []string{"user", "ann"}}, hits{1, "a", []string{"user", "bob"}})
			b := open(t, w.Admin, look{fragment: fragment})
			seen := eval[string](b, `[document.querySelector('#who-name').textContent, document.body.innerText.match(/.*(key was|keys were) denied/)?.[0],
				[...document.querySelectorAll('#who tbody tr')].map(e => [0, 2, 3].map(i => e.cells[i].textContent).join(' ')).join(', '),
				[...document.querySelectorAll('tr.rule')].map(e => ['.limits', '.rate', '.denied'].map(c => e.querySelector(c).textContent).join(' ')).join(', ')
			].join('; ')`)
			if quick = time.Since(began) < 25*time.Second; quick && !regexp.MustCompile(head+keys+rules).MatchString(seen) {
				t.Errorf("%q shows %s; want %s, of the half to whole minute that counters top looks back, not of now; and the rates "+
					"of both rules, of which one refuses nothing", fragment, seen, keys)
			}
		}
	}
}

// What is copied beside a figure gives that figure: a command in a shell, PromQL to the port.
func TestCopiedQueriesGiveTheirFigures(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	from, to := aWeek()
	b := open(t, w.Admin, look{fragment: fmt.Sprintf("%s&from=%d&to=%d", pay, from, to)})
	eval[bool](b, `Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { window.copied = text; }}}), true`)
	copied := func(as string) string {
		eval[bool](b, `window.copied = null, true`)
		b.click(fmt.Sprintf(`.copies[data-of=totals] [data-as=%s]`, as))
		b.await("something is copied", `window.copied && document.querySelector('#copied').textContent.startsWith('Copied')`)
		return eval[string](b, `window.copied`)
	}
	shown := eval[string](b, `document.querySelector('[data-total=over]').dataset.hits`)
	var vector struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	query := copied("query")
	if err := weirtest.GetJSON(w.Admin+"/prometheus/api/v1/query?query="+url.QueryEscape(query), &vector); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	got := map[string]any{}
	for _, r := range vector.Data.Result {
		got[r.Metric["outcome"]] = r.Value[1]
	}
	if got["over"] != shown {
		t.Errorf("%s gives %v; %s were refused", query, got, shown)
	}
	command := copied("command")
	printed, code := process.Command(t, nil, "sh", "-c", strings.Replace(command, "weir", process.Weir(t), 1)+" --json")
	a := answer{}
	if code != 0 || json.Unmarshal([]byte(printed), &a) != nil {
		t.Fatalf("%s ends with %d:\n%s", command, code, printed)
	}
	for _, s := range a.Series {
		if s.Outcome == "over" && fmt.Sprint(s.Total) != shown {
			t.Errorf("%s gives %d refused hits; %s were", command, s.Total, shown)
		}
	}
}
