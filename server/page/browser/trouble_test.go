package browser

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

func shopOf(t testing.TB) map[string]string {
	t.Helper()
	shop, err := os.ReadFile(filepath.FromSlash("../../../k8s/base/config/shop.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"shop.yaml": string(shop)}
}

// A name that a request brought is text, wherever it is shown.
func TestHostileNamesStayText(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	b := open(t, w.Admin, look{})
	hostilePath := eval[string](b, `[...document.querySelectorAll('tr.rule')].map(e => e.dataset.path).find(p => p.startsWith('<img') || p.startsWith('%3Cimg'))`)
	for name, path := range map[string]string{"script": hostilePath, "backwards": backwards, "long": longName, "path": "path=" + strings.ReplaceAll(hostile, "=", "%3D")} {
		v := url.Values{"domain": {hostile}, "path": {path}, "range": {"1h"}}
		b.do(b.prepare(look{}))
		b.reload(w.Admin + "/#" + v.Encode())
		b.await("the name", `document.querySelector('#name').textContent.trim() !== ''`)
		if n := eval[int](b, `document.querySelectorAll('img:not(header img), [onerror], script:not([src])').length`); n != 0 {
			t.Errorf("%s: %d elements have been made of names", name, n)
		}
		for _, part := range []string{"#domain", "#rules"} {
			if text := eval[string](b, fmt.Sprintf(`document.querySelector(%q).textContent`, part)); !strings.Contains(text, hostile) {
				t.Errorf("%s: %s does not show the name as it is", name, part)
			}
		}
		for _, where := range eval[[]string](b, invisible) {
			t.Errorf("%s: what turns text around or hides is shown as it came, in %s", name, where)
		}
		if hits := eval[string](b, `document.querySelector('[data-total=hits]')?.dataset.hits ?? ''`); hits == "" || hits == "0" {
			t.Errorf("%s: the page finds %q hits of the rule, want those that were made", name, hits)
		}
		b.wantNoSideScroll()
		if testing.Short() && name != "long" {
			continue
		}
		b.do(b.prepare(look{width: 360, height: 740}))
		b.reload(w.Admin + "/#" + v.Encode())
		b.wantNoSideScroll()
	}
}

// invisible finds where text has characters that nobody sees.
const invisible = `(() => {
	const found = /[\u202e\u2066\u200b]/.test(document.title) ? ['the title'] : [];
	for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode();) {
		if (/[\u202e\u2066\u200b]/.test(walk.currentNode.data)) found.push(walk.currentNode.parentElement.outerHTML.slice(0, 150));
	}
	return found;
})()`

// reload loads the page anew, though only its fragment may be another, and waits until it is drawn.
func (b *tab) reload(at string) {
	b.Helper()
	b.settle()
	b.load("about:blank")
	b.load(at)
	b.ready()
}

// Fragments come from whoever made the link.
func TestHostileLinkDoesNothing(t *testing.T) {
	t.Parallel()
	w := ofAYear(t)
	b := openBlank(t, w.Admin, look{})
	b.allow("400 (Bad Request)")
	for _, fragment := range []string{
		"#domain=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&path=%3Cscript%3Ealert(1)%3C%2Fscript%3E&range=1h",
		"#range=__proto__&outcome=constructor", "#from=1&to=99999999999999999999", "#from=-5&to=abc", "#%%%&domain=%E0%A4%A", "#from=0&to=253402300799" + "&domain=shop&path=user",
	} {
		b.settle()
		b.load("about:blank")
		b.load(w.Admin + "/" + fragment)
		b.await("an answer", `document.body && document.body.dataset.state !== 'loading'`)
		b.wantNoSideScroll()
	}
}

// A page that has nothing to draw says why, and what to do.
func TestMissingDataIsExplained(t *testing.T) {
	t.Parallel()
	shop := shopOf(t)
	for name, c := range map[string]struct {
		files map[string]string
		env   []string
		seen  map[string]string // a text, by the fragment that leads to it
	}{
		"without history": {shop, []string{"HISTORY=false"}, map[string]string{"": "This weir keeps no history", pay: "10/minute"}},
		"empty history":   {shop, nil, map[string]string{pay: "weir call", pay + "&range=365d": "user"}},
		"without rules":   {map[string]string{"a.yaml": "domain: a"}, nil, map[string]string{"": "descriptor files"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, c.files, c.env...)
			for fragment, text := range c.seen {
				b := open(t, w.Admin, look{fragment: fragment})
				b.wantText(text, "why there is no curve, or what there is")
			}
		})
	}
}

// A store that is away is a sentence on the page, and so is a weir that has gone; what there is stays to be seen.
func TestUnavailableStoreIsExplained(t *testing.T) {
	t.Parallel()
	w := serve(t, shopOf(t), "REDIS_HISTORY_URL=redis://"+process.Addr(t))
	b := openBlank(t, w.Admin, look{})
	for _, complaint := range []string{"503 (Service Unavailable)", "ERR_CONNECTION_REFUSED", "a request fails"} {
		b.allow(complaint)
	}
	b.load(w.Admin + "/" + pay)
	for _, sentence := range []string{"The history cannot be read", "weir does not answer"} {
		b.await(sentence, fmt.Sprintf(`document.body.dataset.state === 'error' &&
			document.querySelector('#message').textContent.includes(%q)`, sentence))
		if n := eval[int](b, `document.querySelectorAll('tr.rule').length`); n < 5 {
			t.Errorf("%s: %d rules are shown, want all of them", sentence, n)
		}
		w.Kill() // now weir goes, too
		b.click("#ranges button[data-range='1d']")
	}
}

func (b *tab) wantText(text, what string) {
	b.Helper()
	if all := eval[string](b, `document.body.innerText`); !strings.Contains(all, text) {
		b.Errorf("the page does not say %s (%q); it says:\n%s", what, text, all)
	}
}
