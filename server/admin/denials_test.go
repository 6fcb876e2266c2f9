package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/denials"
)

const denying = `domain: shop
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 10, unit: minute, name: users}
    descriptors: [{key: path, value: /pay, rate_limit: {requests_per_unit: 5, unit: minute}}]
`

// denialsPort is a port on which, at noon, 20 seconds have passed since ann was denied, and 10 since bob.
func denialsPort(t *testing.T) http.Handler {
	t.Helper()
	config := fixture.Config(t, denying)
	recorder := denials.New()
	table := recorder.Table(config)
	note := func(before, retry time.Duration, hits uint64, shadow bool, d descriptors.Descriptor) {
		rule := config.Match("shop", d).Rule
		table.Record(config.RuleIndex("shop", rule), shadow, &denials.Denial{At: noon.Add(-before), Limit: rule.Limits[0], Hits: hits, Count: 10, RetryIn: retry}, d)
	}
	pay := descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "path", Value: "/pay"}}
	note(30*time.Second, time.Minute, 1, false, pay)
	note(20*time.Second, 40500*time.Millisecond, 2, false, pay)
	note(10*time.Second, backend.Never, 99, true, pay[:1])
	return serving(Parts{Denials: &Denials{
		Recorder: recorder, Rules: inForce{config}, Since: noon.Add(-time.Hour), Now: func() time.Time { return noon }}})
}

func TestDenialsAreListedNewestFirstWithoutValues(t *testing.T) {
	const user = `{"at":1795262423,"domain":"shop","path":"user","limit":"10/minute","name":"users","algorithm":"sliding_window","hits":99,"count":10,` +
		`"retry_seconds":null,"decided_by":"store","shadow":true,"over_requests":1,"over_hits":99}`
	const pay = `{"at":1795262413,"domain":"shop","path":"user/path=%2Fpay","limit":"5/minute","algorithm":"sliding_window","hits":2,"count":10,` +
		`"retry_seconds":21,"decided_by":"store","over_requests":2,"over_hits":3}`
	for query, want := range map[string]string{
		"": user + "," + pay + `],"more":0}`, "domain=shop": user + "," + pay + `],"more":0}`, "n=1": user + `],"more":1}`,
		"domain=shop&path=user": user + `],"more":0}`, "path=user/path=%252Fpay": pay + `],"more":0}`, "path=user/path=/pay": pay + `],"more":0}`,
	} {
		w := get(denialsPort(t), "/api/v1/denials?"+query)
		want = `{"since":1795258833,"now":1795262433,"denials":[` + want
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != want {
			t.Errorf("%s: %d\n%s\nwant\n%s", query, w.Code, got, want)
		}
	}
}

func TestDenialsShowValuesOnlyOnRequest(t *testing.T) {
	for query, want := range map[string]bool{"": false, "?values=false": false, "?values=true": true} {
		w := get(denialsPort(t), "/api/v1/denials"+query)
		if got := strings.Contains(w.Body.String(), `"descriptor":"user=ann,path=/pay"`); got != want || w.Code != 200 {
			t.Errorf("%q: values are shown: %t (%d %s); want %t: they may be personal", query, got, w.Code, w.Body, want)
		}
		if !want && strings.Contains(w.Body.String(), "ann") {
			t.Errorf("%q: %s; want no value in it", query, w.Body)
		}
	}
}

// It is noon, and the port began an hour ago. denialsPort says who was denied when.
func TestDenialsFiltersByUserAndTime(t *testing.T) {
	h := denialsPort(t)
	const pay = `{"first":1795262403,"at":1795262413,"domain":"shop","path":"user/path=%2Fpay","limit":"5/minute","algorithm":"sliding_window","hits":2,"count":10,` +
		`"retry_seconds":21,"decided_by":"store","over_requests":2,"over_hits":3,"descriptors":1}`
	const user = `{"first":1795262423,"at":1795262423,"domain":"shop","path":"user","limit":"10/minute","name":"users","algorithm":"sliding_window","hits":99,"count":10,` +
		`"retry_seconds":null,"decided_by":"store","shadow":true,"over_requests":1,"over_hits":99,"descriptors":1}`
	for query, want := range map[string]string{
		"descriptor=user%3Dann":                                      `"from":0,"to":1795262434,"kept_since":1795258833,"recent":[` + user + "," + pay + "]",
		"descriptor=user%3Dann&n=1":                                  `"more":1,"from":0,"to":1795262434,"kept_since":1795258833,"recent":[` + user + "]",
		"descriptor=path%3D%2Fpay,user%3Dann":                        `"recent":[` + pay + "]",
		"descriptor=user%3Dann&path=user":                            `"recent":[` + user + "]",
		"descriptor=user%3Dan":                                       `"recent":[]`,
		"from=-1m":                                                   `"from":1795262373,"to":1795262434,"kept_since":1795258833,"recent":[` + user + "," + pay + "]",
		"from=1795262403&to=1795262404":                              `"recent":[` + pay + "]",
		"from=1795262400&to=1795262403":                              `"recent":[]`,
		"from=1795262414&to=1795262423":                              `"recent":[]`,
		"to=2026-11-21T12:00:03Z":                                    `"recent":[]`,
		"descriptor=user%3Dann,path%3D%2Fpay&from=11:00&values=true": `"descriptor":"user=ann,path=/pay"`,
	} {
		w := get(h, "/api/v1/denials?"+query)
		if got := w.Body.String(); w.Code != 200 || !strings.Contains(got, want) || !strings.Contains(got, `"denials":[]`) {
			t.Errorf("%s: %d %s\nwant %s", query, w.Code, got, want)
		}
		if strings.Contains(w.Body.String(), "ann") != strings.Contains(query, "values") {
			t.Errorf("%s: %s; want values only where they are asked for", query, w.Body)
		}
	}
}
