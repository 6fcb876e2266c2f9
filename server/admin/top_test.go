package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/query"
)

func TestWhoTakesTheMostIsServed(t *testing.T) {
	p := newPort(t, &Guard{})
	p.hit(t, "user", 9)
	for range 5 {
		p.hit(t, "guest", 2)
	}
	const head = `{"domain":"shop","path":"","source":"process","by":"%s","from":1795262400,"to":1795262434,"found":%d,"missing":0,` +
		`"warnings":[],"top":[`
	const guest = `{"descriptor":"guest=ann","path":"guest","limit":"10/minute","algorithm":"token_bucket","burst":5,"rate":10,` +
		`"hits":10,"within":4,"over":6,"degraded":0,"near":0,"shadow":0}`
	const user = `{"descriptor":"user=ann","path":"user","limit":"10/minute","algorithm":"sliding_window","rate":9,` +
		`"hits":9,"within":9,"over":0,"degraded":0,"near":1,"shadow":0}`
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
	if _, body := p.ask("GET", "/help"); !strings.Contains(body, "/api/v1/counters/top?domain=&path=&by=hits&n=20&from=&to=") {
		t.Errorf("the list of what the port serves lacks the path:\n%s", body)
	}
}

func TestAWrongQuestionAboutWhoTakesTheMostSaysWhatIsRight(t *testing.T) {
	p := newPort(t, &Guard{})
	for target, want := range map[string]string{
		"?domain=shop&n=0":            "400 n must be",
		"?domain=shop&n=1001":         "400 n must be",
		"?domain=shop&by=size":        `400 by: nothing is ranked by "size": use hits, within`,
		"?domain=shop&descriptor=x":   `400 Parameter "descriptor" is unknown`,
		"?domain=shpo":                "404 No file configures domain shpo. The configured ones are shop",
		"?domain=shop&path=friend":    "404 Rule friend of domain shop is unlimited",
		"?domain=shop&path=user/path": "404 No rule of domain shop has the path user/path",
		"?domain=shop&from=-1h":       "404 This weir keeps no history",
	} {
		code, body := p.ask("GET", "/api/v1/counters/top"+target)
		number, text, _ := strings.Cut(want, " ")
		if fmt.Sprint(code) != number || !strings.Contains(body, text) {
			t.Errorf("%q is answered %d %s; want %s", target, code, body, want)
		}
	}
}

// Of the history those values are listed that rules keep apart, of all weirs.
func TestWhoTookTheMostIsReadInTheHistory(t *testing.T) {
	store, err := filehistory.InMemory(filehistory.Config{Keep: history.DefaultKeep(), Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i, add := range []history.Increment{
		{ID: history.ID{Domain: "shop", Path: "user"}, Hits: 1000},
		{ID: history.ID{Domain: "shop", Path: "user", Value: "user=a%2Fb"}, Hits: 7},
		{ID: history.ID{Domain: "shop", Path: "user", Value: "user=bob", Outcome: history.Over}, Hits: 9},
		{ID: history.ID{Domain: "shop", Path: "user", Value: history.OtherValue}, Hits: 5},
	} {
		add.Minute = noon.Unix()/60 - 10
		b := history.Batch{Writer: fmt.Sprint(i), Seq: 1, Increments: []history.Increment{add}}
		if _, err := store.Apply(t.Context(), add.ID.Partition(), b); err != nil {
			t.Fatal(err)
		}
	}
	p := newPort(t, &Guard{})
	p.Handler = Handler(Parts{Readiness: ready{}, Metrics: http.NotFoundHandler(), Counters: p.counters,
		History: query.New(store, func() time.Time { return noon })})
	const want = `"source":"history","by":"hits","from":1795258800,"to":1795262460,"found":3,"warnings":[],"top":[` +
		`{"descriptor":"user=bob","path":"user","hits":9,"within":0,"over":9,"degraded":0,"near":0,"shadow":0},` +
		`{"descriptor":"user=a/b","path":"user","hits":7,"within":7,"over":0,"degraded":0,"near":0,"shadow":0}]}`
	code, body := p.ask("GET", "/api/v1/counters/top?domain=shop&from=-1h&n=2")
	if code != 200 || !strings.HasSuffix(body, want) {
		t.Errorf("got %d\n%s\nwant …\n%s", code, body, want)
	}
}
