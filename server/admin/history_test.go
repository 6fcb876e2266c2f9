package admin

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/query"
)

// kept is a history whose clock stands still.
type kept struct {
	*query.History
	store interface {
		history.Store
		Close() error
	}
	now time.Time
}

func newKept(t testing.TB, now time.Time) *kept {
	t.Helper()
	return keptBy(t, now, filehistory.InMemory, "")
}

// keptBy is a history in a store, in a directory.
func keptBy(t testing.TB, now time.Time, open func(filehistory.Config) (*filehistory.Store, error), dir string) *kept {
	t.Helper()
	k := &kept{now: now}
	clock := func() time.Time { return k.now }
	store, err := open(filehistory.Config{Dir: dir, Keep: history.DefaultKeep(), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	k.store = store
	k.History = query.New(k.store, clock)
	return k
}

// hit is hits of a series at a moment, in Unix seconds.
type hit struct {
	id   history.ID
	at   int64
	hits uint64
}

// add counts hits, none of them in the same minute of a series.
func (k *kept) add(t testing.TB, hits ...hit) {
	t.Helper()
	var increments []history.Increment
	for _, h := range hits {
		increments = append(increments, history.Increment{ID: h.id, Minute: h.at / 60, Hits: h.hits})
	}
	historytest.Count(t, k.store, increments...)
}

func (k *kept) roll(t testing.TB) {
	t.Helper()
	if _, err := k.store.Roll(t.Context(), history.Job{Now: k.now}); err != nil {
		t.Fatal(err)
	}
}

// get asks an admin port over this history.
func (k *kept) get(target string) (int, string) {
	w := get(serving(Parts{History: k.History}), target)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// ask reads the answer to a question, below /api/v1/history.
func (k *kept) ask(t *testing.T, question string, answer any) {
	t.Helper()
	code, body := k.get("/api/v1/history" + question)
	if err := json.Unmarshal([]byte(body), answer); err != nil || code != 200 {
		t.Fatalf("%s gave %d %s (%v)", question, code, body, err)
	}
}

// answer asks for a query.HistoryAnswer.
func (k *kept) answer(t *testing.T, parameters url.Values) (a query.HistoryAnswer) {
	t.Helper()
	k.ask(t, "?"+parameters.Encode(), &a)
	return a
}

var (
	annWithin = history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Within}
	annOver   = history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Over}
	bobWithin = history.ID{Domain: "shop", Path: "user", Value: "bob", Outcome: history.Within}
	mailOver  = history.ID{Domain: "mail", Path: "from", Outcome: history.Over}
)

// threeMonths is a history with hits in all tiers, at noon of 21 November 2026.
func threeMonths(t *testing.T) *kept {
	k := newKept(t, noon)
	ago := func(d time.Duration) int64 { return noon.Add(-d).Unix() }
	const day = 24 * time.Hour
	k.add(t, hit{annWithin, ago(0), 7}, hit{annWithin, ago(time.Minute), 3}, hit{annWithin, ago(59 * time.Minute), 5},
		hit{annWithin, ago(2 * day), 11}, hit{annWithin, ago(2*day - time.Minute), 2}, hit{annWithin, ago(20 * day), 13},
		hit{annWithin, ago(80 * day), 17}, hit{annOver, ago(time.Minute), 4}, hit{bobWithin, ago(3 * time.Minute), 1},
		hit{mailOver, ago(40 * day), 9}, hit{mailOver, ago(2 * time.Minute), 6})
	k.roll(t)
	return k
}

func TestHistoryIsAnsweredAsItIsStored(t *testing.T) {
	k := threeMonths(t)
	for _, c := range []struct{ promise, query, want string }{
		{"the last hour, every series of its own", "", `{"from":1795258800,"to":1795262460,"warnings":[],"unreadable":0,"series":[` +
			`{"domain":"mail","path":"from","outcome":"over","value":"","total":6,"lifetime":15,"points":[{"start":1795262280,"width":60,"sum":6,"peak":6,"tier":"1m"}]},` +
			`{"domain":"shop","path":"user","outcome":"within","value":"bob","total":1,"lifetime":1,"points":[{"start":1795262220,"width":60,"sum":1,"peak":1,"tier":"1m"}]},` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"within","value":"","total":15,"lifetime":58,"points":[` +
			`{"start":1795258860,"width":60,"sum":5,"peak":5,"tier":"1m"},{"start":1795262340,"width":60,"sum":3,"peak":3,"tier":"1m"},{"start":1795262400,"width":60,"sum":7,"peak":7,"tier":"1m","partial":true}]},` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"over","value":"","total":4,"lifetime":4,"points":[{"start":1795262340,"width":60,"sum":4,"peak":4,"tier":"1m"}]}]}`},
		{"one domain and outcome, all tiers, in a range widened to whole buckets", "domain=shop&outcome=within&path=user/path%3D%252Fpay&from=-80d",
			`{"from":1788307200,"to":1795262460,"warnings":[],"unreadable":0,"series":[` +
				`{"domain":"shop","path":"user/path=%2Fpay","outcome":"within","value":"","total":58,"lifetime":58,"points":[` +
				`{"start":1788307200,"width":86400,"sum":17,"peak":17,"tier":"1d"},{"start":1793534400,"width":3600,"sum":13,"peak":13,"tier":"1h"},` +
				`{"start":1795089600,"width":300,"sum":13,"peak":11,"tier":"5m"},{"start":1795258860,"width":60,"sum":5,"peak":5,"tier":"1m"},` +
				`{"start":1795262340,"width":60,"sum":3,"peak":3,"tier":"1m"},{"start":1795262400,"width":60,"sum":7,"peak":7,"tier":"1m","partial":true}]}]}`},
		{"a path as people are shown it", "path=user/path%3D/pay&outcome=over&value=", `{"from":1795258800,"to":1795262460,"warnings":[],"unreadable":0,"series":[` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"over","value":"","total":4,"lifetime":4,"points":[{"start":1795262340,"width":60,"sum":4,"peak":4,"tier":"1m"}]}]}`},
		{"a value", "value=bob&to=2026-11-21T11:58:00Z&from=2026-11-21T11:57:59Z", `{"from":1795262220,"to":1795262280,"warnings":[],"unreadable":0,"series":[` +
			`{"domain":"shop","path":"user","outcome":"within","value":"bob","total":1,"lifetime":1,"points":[{"start":1795262220,"width":60,"sum":1,"peak":1,"tier":"1m"}]}]}`},
		{"a series without hits in the range still has a lifetime", "domain=mail&from=-1m&to=1795262400", `{"from":1795262340,"to":1795262400,"since":1791763200,"until":1795262340,"warnings":[],"unreadable":0,"series":[` +
			`{"domain":"mail","path":"from","outcome":"over","value":"","total":0,"lifetime":15,"points":[]}]}`},
		{"nothing", "domain=nobody", `{"from":1795258800,"to":1795262460,"warnings":[],"unreadable":0,"series":[]}`},
		{"cut into buckets, the empty ones too", "outcome=over&domain=shop&from=-3m&points=10", `{"from":1795262220,"to":1795262460,"warnings":[],"unreadable":0,"series":[` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"over","value":"","total":4,"lifetime":4,"points":[` +
			`{"start":1795262220,"width":60,"sum":0,"peak":0},{"start":1795262280,"width":60,"sum":0,"peak":0},` +
			`{"start":1795262340,"width":60,"sum":4,"peak":4,"tier":"1m"},{"start":1795262400,"width":60,"sum":0,"peak":0,"partial":true}]}]}`},
		{"steps say how wide they are", "outcome=over&domain=shop&from=-3m&step=2m", `{"from":1795262160,"to":1795262520,"step":120,"warnings":[],"unreadable":0,"series":[` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"over","value":"","total":4,"lifetime":4,"points":[` +
			`{"start":1795262160,"width":120,"sum":0,"peak":0},{"start":1795262280,"width":120,"sum":4,"peak":4,"tier":"1m"},` +
			`{"start":1795262400,"width":120,"sum":0,"peak":0,"partial":true}]}]}`},
	} {
		t.Run(c.promise, func(t *testing.T) {
			code, body := k.get("/api/v1/history?" + c.query)
			if got := strings.ReplaceAll(body, "\n", ""); code != 200 || got != c.want {
				t.Errorf("got %d\n%s\nwant\n%s\nScripts read this form.", code, got, c.want)
			}
		})
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	k := newKept(t, noon)
	for i := range 120 {
		k.add(t, hit{history.ID{Domain: "shop", Path: fmt.Sprint("rule", i)}, noon.Unix(), 1})
	}
	code, body := k.get("/api/v1/history?from=-6d&points=10000")
	if code != 400 || !strings.Contains(body, "The answer of 120 series would have more than 250000 points: ask for") {
		t.Errorf("120 series of 8,640 buckets gave %d with %.200s: a question must not take the memory of the limiter", code, body)
	}
	if code, _ := k.get("/api/v1/history?from=-6d&points=2082"); code != 200 {
		t.Errorf("120 series of at most 2,082 buckets gave %d, though they fit", code)
	}
}

func TestTopRanksRulesAndTheirValues(t *testing.T) {
	k := threeMonths(t)
	for _, c := range []struct{ query, want string }{
		{"", `{"from":1795258800,"to":1795262460,"since":1795258860,"until":1795262460,"warnings":[],"unreadable":0,"by":"hits","found":3,"total":26,"top":[` +
			`{"domain":"shop","path":"user/path=%2Fpay","value":"","hits":19,"within":15,"over":4,"degraded":0,"near":0,"shadow":0},` +
			`{"domain":"mail","path":"from","value":"","hits":6,"within":0,"over":6,"degraded":0,"near":0,"shadow":0},` +
			`{"domain":"shop","path":"user","value":"bob","hits":1,"within":1,"over":0,"degraded":0,"near":0,"shadow":0}]}`},
		{"by=over&n=1&from=-90d", `{"from":1787486400,"to":1795262460,"since":1788307200,"until":1795262460,"warnings":[],"unreadable":0,"by":"over","found":2,"total":19,"top":[` +
			`{"domain":"mail","path":"from","value":"","hits":15,"within":0,"over":15,"degraded":0,"near":0,"shadow":0}]}`},
		{"by=near", `{"from":1795258800,"to":1795262460,"since":1795258860,"until":1795262460,"warnings":[],"unreadable":0,"by":"near","found":0,"total":0,"top":[]}`},
	} {
		if code, body := k.get("/api/v1/history/top?" + c.query); code != 200 || body != c.want {
			t.Errorf("%s: got %d\n%s\nwant\n%s", c.query, code, body, c.want)
		}
	}
}

func TestVerifyLooksAtEverySeries(t *testing.T) {
	k := threeMonths(t)
	if code, body := k.get("/api/v1/history/verify"); code != 200 || body != `{"series":4,"points":10,"broken":0,"named":[]}` {
		t.Errorf("a sound history gives %d %s", code, body)
	}
	if code, body := k.get("/api/v1/history/verify?path=user/path=/pay&outcome=over"); code != 200 || body != `{"series":1,"points":1,"broken":0,"named":[]}` {
		t.Errorf("one series gives %d %s", code, body)
	}
}

func TestNothingIsWrittenBeforeAnError(t *testing.T) {
	k := threeMonths(t)
	if err := k.store.Close(); err != nil {
		t.Fatal(err)
	}
	if a, err := k.Show(t.Context(), nil); err == nil || len(a.Series) > 0 {
		t.Errorf("a closed store gives %v, and %+v: half an answer looks like a whole one", err, a)
	}
	if code, body := k.get("/api/v1/history"); code != 503 || !strings.HasPrefix(body, `{"error":"The history cannot be read: `) {
		t.Errorf("a closed store gives %d %s", code, body)
	}
}
