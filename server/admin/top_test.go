package admin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/history"
)

func TestTopServesTheLargestKeys(t *testing.T) {
	p := newPort(t, &Access{})
	p.hit(t, "user", 9)
	for range 5 {
		p.hit(t, "guest", 2)
	}
	const head = `{"domain":"shop","path":"","source":"process","by":"%s","from":1795262400,"to":1795262434,"found":%d,"missing":0,` +
		`"warnings":[],"top":[`
	const guest = `{"descriptor":"guest=ann","path":"guest","limit":"10/minute","algorithm":"token_bucket","burst":5,` +
		`"hits":10,"within":4,"over":6,"shadow":0,"degraded":0,"near":0}`
	const user = `{"descriptor":"user=ann","path":"user","limit":"10/minute","algorithm":"sliding_window",` +
		`"hits":9,"within":9,"over":0,"shadow":0,"degraded":0,"near":1}`
	for question, want := range map[string]string{
		"?domain=shop":            fmt.Sprintf(head, "hits", 2) + guest + "," + user + "]}",
		"?n=1":                    fmt.Sprintf(head, "hits", 2) + guest + "]}",
		"?by=over":                fmt.Sprintf(head, "over", 1) + guest + "]}",
		"?by=within&n=1":          fmt.Sprintf(head, "within", 2) + user + "]}",
		"?path=user":              strings.Replace(fmt.Sprintf(head, "hits", 1), `"path":""`, `"path":"user"`, 1) + user + "]}",
		"?domain=shop&path=payer": strings.Replace(fmt.Sprintf(head, "hits", 0), `"path":""`, `"path":"payer"`, 1) + "]}",
	} {
		if code, body := p.ask("GET", "/api/v1/counters/top"+question); code != 200 || body != want {
			t.Errorf("%s is answered %d\n%s\nwant\n%s", question, code, body, want)
		}
	}
}

// Of the history those values are listed that rules keep apart, of all weirs.
func TestTopReadsTheHistory(t *testing.T) {
	k, ago := newKept(t, noon), noon.Unix()-600
	k.add(t, hit{history.ID{Domain: "shop", Path: "user"}, ago, 1000},
		hit{history.ID{Domain: "shop", Path: "user", Value: "user=a%2Fb"}, ago, 7},
		hit{history.ID{Domain: "shop", Path: "user", Value: "user=bob", Outcome: history.Over}, ago, 9},
		hit{history.ID{Domain: "shop", Path: "user", Value: history.OtherValue}, ago, 5})
	p := newPort(t, &Access{})
	p.Handler = serving(Parts{Counters: p.counters, History: k.History})
	const want = `"source":"history","by":"hits","from":1795258800,"to":1795262460,"found":3,"warnings":[],"top":[` +
		`{"descriptor":"user=bob","path":"user","hits":9,"within":0,"over":9,"shadow":0,"degraded":0,"near":0},` +
		`{"descriptor":"user=a/b","path":"user","hits":7,"within":7,"over":0,"shadow":0,"degraded":0,"near":0}]}`
	k.add(t, hit{history.ID{Domain: "shop", Path: "trial", Outcome: history.Shadow}, ago, 3})
	if code, body := p.ask("GET", "/api/v1/counters/top?domain=shop&from=-1h&by=shadow"); code != 200 || !strings.HasSuffix(body, `"found":0,"warnings":[],"top":[]}`) {
		t.Errorf("where no value has shadow hits: %d %s, want no warning, as there are rules that keep values", code, body)
	}
	if _, body := p.ask("GET", "/api/v1/counters/top?domain=shop&from=-1h&path=trial"); !strings.Contains(body, "No rule that was hit keeps values") {
		t.Errorf("of a rule that keeps none: %s, want a warning", body)
	}
	code, body := p.ask("GET", "/api/v1/counters/top?domain=shop&from=-1h&n=2")
	if code != 200 || !strings.HasSuffix(body, want) {
		t.Errorf("got %d\n%s\nwant …\n%s", code, body, want)
	}
}
