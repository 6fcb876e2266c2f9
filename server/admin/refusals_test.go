package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/server/denials"
)

const grant = "POST counters/grant" + ann

// refusals are questions below /api/v1/, and how they are answered: the status, and a part of the sentence.
var refusals = map[string]string{
	// Parameters, whatever they are of.
	"counters" + ann + "&domain=other":               "400 given twice",
	"counters?domain=shop&descriptor=user=%ff":       "400 not UTF-8",
	"counters?domain=%zz":                            "400 The query cannot be read",
	"counters" + ann + strings.Repeat("n", maxQuery): "400 longer than",
	"history?path=%zz":                               "400 The query cannot be read",
	"history?path=" + strings.Repeat("n", maxQuery):  "400 longer than",
	"rules?%zz":                             "400 The query cannot be read",
	"rules?domain=shop":                     `400 Parameter "domain" is unknown`,
	grant + "&hit=3":                        `400 "hit" is unknown`,
	"DELETE counters" + ann + "&hits=3":     `400 "hits" is unknown`,
	"denials?user=ann":                      `400 Parameter "user" is unknown`,
	"counters/top?domain=shop&descriptor=x": `400 Parameter "descriptor" is unknown`,
	"history?domian=shop":                   `400 Parameter "domian" is unknown`,
	"history/top?outcome=over":              `400 "outcome" is unknown`,
	"history/export?points=3":               `400 Parameter "points" is unknown`,
	"history/verify?from=-1h":               `400 "from" is unknown`,
	"denials?n=0":                           "400 n must be a whole number from 1 to 1000",
	"denials?n=x":                           "400 n must",
	"counters/top?domain=shop&n=1001":       "400 n must be",
	"history/top?n=1001":                    "400 n must be a whole number from 1 to 1000",
	"history?points=0":                      `400 points must be a whole number from 1 to 10000, not "0"`,
	"denials?values=yes":                    "400 values must be true or false",
	"history?values=no&step=1h":             "400 values must be true or false",
	"denials?from=yesterday":                `400 from: "yesterday" is not a time`,
	"denials?from=2030-01-01":               "400 from (2030-01-01T00:00:00Z) must be before to (",
	"history?from=-1h&to=-2h":               "400 from (2026-11-21T11:00:33Z) must be before to (2026-11-21T10:00:33Z)",
	"history?from=-1h&to=-1h":               "400 must be before",
	"history/export?from=soon":              "400 is not a time",
	"counters/top?domain=shop&by=size":      `400 by: nothing is ranked by "size": use one of hits, within, over, shadow, degraded, near.`,
	"history/top?by=size":                   `400 by: nothing is ranked by "size": use one of hits, within`,
	"history?outcome=limited":               `400 "limited" is not an outcome: use one of within, over, shadow, degraded, near`,
	"history?points=5&step=1h":              "400 give one of them",
	"history?step=soon":                     `400 step: "soon" is not a width of buckets: use whole minutes`,
	"history?values=false":                  "400 give points or step",
	"history?tz=Europe/Atlantis":            "400 use a name such as Europe/Berlin",
	"history?tz=Local":                      "400 not a time zone", // the server's own, whatever it is
	"history?tz=../../etc/passwd":           "400 not a time zone",
	"history/export?format=xml":             `400 format: "xml" is not a format: use one of csv, openmetrics.`,
	grant + "&hits=0":                       "400 whole number from 1",
	grant + "&hits=":                        `400 not ""`,
	grant + "&hits=-1":                      `400 not "-1"`,
	"counters?descriptor=user=ann":          "400 domain is missing",
	"counters?domain=shop":                  "400 descriptor: it is empty",
	"counters?domain=shop&descriptor=user":  `400 has no "="`,
	"denials?descriptor=ann":                "400 descriptor: ",
	"POST counters" + ann:                   "405 Method Not Allowed",
	// What no file configures.
	"counters?domain=shp&descriptor=user=ann":   "404 The configured ones are shop",
	"counters?domain=shop&descriptor=usr=ann":   "404 weir check DIR --explain",
	"counters?domain=shop&descriptor=friend=bo": `404 Rule "friend" (0.yaml:7) is unlimited`,
	"counters/top?domain=shpo":                  "404 No file configures domain shpo. The configured ones are shop",
	"counters/top?domain=shop&path=friend":      "404 Rule friend of domain shop is unlimited",
	"counters/top?domain=shop&path=user/path":   "404 No rule of domain shop has the path user/path",
	"denials?domain=shpo":                       "404 No file configures domain shpo. The configured ones are shop",
	"denials?descriptor=user%3Dann&domain=shpo": "404 No file configures domain shpo",
	"denials?domain=shop&path=usr":              "404 No rule of domain shop has the path usr; weir check DIR lists the rules.",
}

// A script tells by the status whether it or weir is at fault, and people by the sentence what is right.
func TestBadQueriesAreRefusedWithASentence(t *testing.T) {
	g := &Access{Host: "127.0.0.1"}
	p := newPort(t, g)
	rules := p.counters.Rules
	p.Handler = serving(Parts{Counters: p.counters, Access: g, Rules: rules, History: threeMonths(t).History,
		Denials: &Denials{Recorder: denials.New(), Rules: rules, Now: func() time.Time { return noon }}})
	for question, want := range refusals {
		method, path, found := strings.Cut(question, " ")
		if !found {
			method, path = http.MethodGet, question
		}
		code, body := p.ask(method, "/api/v1/"+path)
		if number, text, _ := strings.Cut(want, " "); fmt.Sprint(code) != number || !strings.Contains(body, text) {
			t.Errorf("%.100s is answered %d %s, want %s", question, code, body, want)
		}
	}
}

func TestAHistoryAloneHasNoDenials(t *testing.T) {
	for _, path := range []string{"/api/v1/denials", "/api/v1/counters?domain=shop&descriptor=user=ann", "/api/v1/counters/top"} {
		w := get(serving(Parts{}), path)
		if w.Code != 404 || w.Body.String() != "weir history serve has no denials or counters: ask a weir serve.\n" {
			t.Errorf("%s is answered with %d %s", path, w.Code, w.Body)
		}
	}
}

func TestQueriesWithoutAStoreAreRefused(t *testing.T) {
	p := newPort(t, &Access{})
	p.Handler = serving(Parts{Counters: p.counters, Access: &Access{}, NoHistory: "set this"})
	for _, question := range []string{"history/top", "history/export", "counters/top?domain=shop&from=-1h"} {
		if code, body := p.ask("GET", "/api/v1/"+question); code != 404 || body != "This weir keeps no history: set this." {
			t.Errorf("a weir without a history answers %s with %d %s, want 404 and that", question, code, body)
		}
	}
	p.counters.Counter.Close()
	if code, body := p.ask("GET", "/api/v1/counters"+ann); code != 503 || !strings.Contains(body, "cannot be reached") {
		t.Errorf("with a store that is away: %d %s, want 503", code, body)
	}
	k := threeMonths(t)
	if err := k.store.Close(); err != nil {
		t.Fatal(err)
	}
	if code, body := k.get("/api/v1/history"); code != 503 || !strings.HasPrefix(body, historyError) {
		t.Errorf("with a history whose store is away: %d %s, want 503, and nothing of an answer, which would look like a whole one", code, body)
	}
	p.counters.Rules = inForce{}
	if code, body := p.ask("GET", "/api/v1/counters"+ann); code != 503 {
		t.Errorf("without a configuration: %d %s, want 503", code, body)
	}
}
