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
	historyapi "github.com/weirproxy/weir/server/history"
)

// kept is a history whose clock stands still.
type kept struct {
	*historyapi.History
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
	store, err := open(filehistory.Config{Dir: dir, Retention: history.DefaultRetention(), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	k.store = store
	k.History = historyapi.New(k.store, 0, clock)
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

// answer asks for a historyapi.HistoryAnswer.
func (k *kept) answer(t *testing.T, parameters url.Values) (a historyapi.HistoryAnswer) {
	t.Helper()
	k.ask(t, "?"+parameters.Encode(), &a)
	return a
}

var (
	annWithin = history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Within}
	annOver   = history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Over}
	bobWithin = history.ID{Domain: "shop", Path: "user", Value: "user=%2Fbob", Outcome: history.Within}
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
	historytest.Downsample(t, k.store, k.now)
	return k
}

func TestHistoryAnswersTheStoredHits(t *testing.T) {
	k := threeMonths(t)
	for _, c := range []struct{ promise, query, want string }{
		{"the last hour, every series of its own", "?", `{"from":1795258800,"to":1795262460,"warnings":[],"unreadable":0,"now":1795262433,"series":[` +
			`{"domain":"mail","path":"from","outcome":"over","value":"","total":6,"lifetime":15,"points":[{"start":1795262280,"width":60,"sum":6,"peak":6,"tier":"1m"}]},` +
			`{"domain":"shop","path":"user","outcome":"within","value":"user=%2Fbob","total":1,"lifetime":1,"points":[{"start":1795262220,"width":60,"sum":1,"peak":1,"tier":"1m"}]},` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"within","value":"","total":15,"lifetime":58,"points":[` +
			`{"start":1795258860,"width":60,"sum":5,"peak":5,"tier":"1m"},{"start":1795262340,"width":60,"sum":3,"peak":3,"tier":"1m"},{"start":1795262400,"width":60,"sum":7,"peak":7,"tier":"1m","partial":true}]},` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"over","value":"","total":4,"lifetime":4,"points":[{"start":1795262340,"width":60,"sum":4,"peak":4,"tier":"1m"}]}]}`},
		{"one domain and outcome, all tiers, in a range widened to whole buckets", "?domain=shop&outcome=within&path=user/path%3D%252Fpay&from=-80d",
			`{"from":1788307200,"to":1795262460,"asked_from":1788350433,"asked_to":1795262434,"warnings":[],"unreadable":0,"now":1795262433,"series":[` +
				`{"domain":"shop","path":"user/path=%2Fpay","outcome":"within","value":"","total":58,"lifetime":58,"points":[` +
				`{"start":1788307200,"width":86400,"sum":17,"peak":17,"tier":"1d"},{"start":1793534400,"width":3600,"sum":13,"peak":13,"tier":"1h"},` +
				`{"start":1795089600,"width":300,"sum":13,"peak":11,"tier":"5m"},{"start":1795258860,"width":60,"sum":5,"peak":5,"tier":"1m"},` +
				`{"start":1795262340,"width":60,"sum":3,"peak":3,"tier":"1m"},{"start":1795262400,"width":60,"sum":7,"peak":7,"tier":"1m","partial":true}]}]}`},
		{"a path as people are shown it", "?path=user/path%3D/pay&outcome=denied&value=", `{"from":1795258800,"to":1795262460,"warnings":[],"unreadable":0,"now":1795262433,"series":[` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"over","value":"","total":4,"lifetime":4,"points":[{"start":1795262340,"width":60,"sum":4,"peak":4,"tier":"1m"}]}]}`},
		{"a value as people are shown it", "?value=user%3D/bob&to=2026-11-21T11:58:00Z&from=2026-11-21T11:57:59Z", `{"from":1795262220,"to":1795262280,"warnings":[],"unreadable":0,"now":1795262433,"series":[` +
			`{"domain":"shop","path":"user","outcome":"within","value":"user=%2Fbob","total":1,"lifetime":1,"points":[{"start":1795262220,"width":60,"sum":1,"peak":1,"tier":"1m"}]}]}`},
		{"a series without hits in the range still has a lifetime", "?domain=mail&from=-1m&to=1795262400", `{"from":1795262340,"to":1795262400,"since":1791763200,"until":1795262340,"warnings":[],"unreadable":0,"now":1795262433,"series":[` +
			`{"domain":"mail","path":"from","outcome":"over","value":"","total":0,"lifetime":15,"points":[]}]}`},
		{"nothing", "?domain=nobody", `{"from":1795258800,"to":1795262460,"no_series":true,"warnings":[],"unreadable":0,"now":1795262433,"series":[]}`},
		{"cut into buckets, the empty ones too", "?outcome=over&domain=shop&from=-3m&points=10", `{"from":1795262220,"to":1795262460,"warnings":[],"unreadable":0,"now":1795262433,"series":[` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"over","value":"","total":4,"lifetime":4,"points":[` +
			`{"start":1795262220,"width":60,"sum":0,"peak":0},{"start":1795262280,"width":60,"sum":0,"peak":0},` +
			`{"start":1795262340,"width":60,"sum":4,"peak":4,"tier":"1m"},{"start":1795262400,"width":60,"sum":0,"peak":0,"partial":true}]}]}`},
		{"steps say how wide they are", "?outcome=over&domain=shop&from=-3m&step=2m", `{"from":1795262160,"to":1795262520,"step":120,"asked_from":1795262253,"asked_to":1795262434,"warnings":[],"unreadable":0,"now":1795262433,"series":[` +
			`{"domain":"shop","path":"user/path=%2Fpay","outcome":"over","value":"","total":4,"lifetime":4,"points":[` +
			`{"start":1795262160,"width":120,"sum":0,"peak":0},{"start":1795262280,"width":120,"sum":4,"peak":4,"tier":"1m"},` +
			`{"start":1795262400,"width":120,"sum":0,"peak":0,"partial":true}]}]}`},
		{"the rules and values that were hit most", "/top?", `{"from":1795258800,"to":1795262460,"since":1795258860,"until":1795262460,"warnings":[],"unreadable":0,"by":"hits","found":3,"total":26,"top":[` +
			`{"domain":"shop","path":"user/path=%2Fpay","value":"","hits":19,"within":15,"over":4,"shadow":0,"degraded":0,"near":0},` +
			`{"domain":"mail","path":"from","value":"","hits":6,"within":0,"over":6,"shadow":0,"degraded":0,"near":0},` +
			`{"domain":"shop","path":"user","value":"user=%2Fbob","hits":1,"within":1,"over":0,"shadow":0,"degraded":0,"near":0}]}`},
		{"the one that was refused most", "/top?by=refused&n=1&from=-90d", `{"from":1787486400,"to":1795262460,"since":1788307200,"until":1795262460,"warnings":[],"unreadable":0,"by":"over","found":2,"total":19,"top":[` +
			`{"domain":"mail","path":"from","value":"","hits":15,"within":0,"over":15,"shadow":0,"degraded":0,"near":0}]}`},
		{"a range without hits says where there are some", "/top?from=2020-01-01&to=2020-02-01", `{"from":1577836800,"to":1580515200,"since":1788307200,"until":1795262460,"warnings":[],"unreadable":0,"by":"hits","found":0,"total":0,"top":[]}`},
		{"none that was near its limit", "/top?by=near", `{"from":1795258800,"to":1795262460,"since":1795258860,"until":1795262460,"warnings":[],"unreadable":0,"by":"near","found":0,"total":0,"top":[]}`},
		{"all series hold what they counted", "/verify", `{"series":4,"points":10,"broken":0,"named":[]}`},
		{"one series holds it", "/verify?path=user/path=/pay&outcome=over", `{"series":1,"points":1,"broken":0,"named":[]}`},
	} {
		t.Run(c.promise, func(t *testing.T) {
			code, body := k.get("/api/v1/history" + c.query)
			if got := strings.ReplaceAll(body, "\n", ""); code != 200 || got != c.want {
				t.Errorf("got %d\n%s\nwant\n%s\nScripts read this form.", code, got, c.want)
			}
		})
	}
}

func TestHistoryAnswerIsBounded(t *testing.T) {
	k := newKept(t, noon)
	for i := range 120 {
		k.add(t, hit{history.ID{Domain: "shop", Path: fmt.Sprint("rule", i)}, noon.Unix(), 1})
	}
	code, body := k.get("/api/v1/history?from=-6d&points=10000")
	if code != 400 || !strings.Contains(body, "The answer would have more than 250000 points: ask for") {
		t.Errorf("120 series of 8,640 buckets gave %d with %.200s: a question must not take the memory of the limiter", code, body)
	}
	if code, _ := k.get("/api/v1/history?from=-6d&points=2082"); code != 200 {
		t.Errorf("120 series of at most 2,082 buckets gave %d, though they fit", code)
	}
}

// Where days begin is proven in backend/history.
func TestTooFineStepIsWidenedOrRefused(t *testing.T) {
	k := threeMonths(t)
	for _, c := range []struct {
		promise, query string
		step           int64
		warning        string
	}{
		{"days are stored", "from=-80d&step=15m&outcome=within", 86400,
			"Steps of 15m were asked for, but buckets of 1d are stored in this range, and none is split: these are of 1d."},
		{"hours are stored", "from=-21d&to=-19d&step=90m&outcome=within", 7200,
			"Steps of 90m were asked for, but buckets of 1h are stored in this range, and none is split: these are of 2h."},
		{"minutes are stored", "from=-1h&step=1m", 60, ""},
		{"weeks of days", "from=-80d&step=1w", 7 * 86400, ""},
		{"days of a zone, where nothing is stored", "from=2026-10-24&to=2026-10-27&step=1d&tz=Europe/Berlin", 86400, ""},
		{"days of a zone half an hour from UTC, where hours are stored", "from=2026-11-01&to=2026-11-03&step=1d&tz=Asia/Kolkata", 86400,
			"Until 2026-11-01T00:00:00+05:30 only whole hours are stored, so local days there begin at the full hour of UTC nearest to midnight."},
		{"days of a zone, where days are stored", "from=2026-09-02&to=2026-09-03&step=1d&tz=Europe/Berlin", 86400,
			"Until 2026-09-03T00:00:00+02:00 only whole UTC days are stored, so each local day there is shown as the UTC day nearest to it."},
	} {
		var a historyapi.HistoryAnswer
		k.ask(t, "?domain=shop&"+c.query, &a)
		if got := strings.Join(a.Warnings, " "); a.Step != c.step || got != c.warning {
			t.Errorf("%s: steps of %d with the warning %q, want %d and %q", c.promise, a.Step, got, c.step, c.warning)
		}
	}
	k = newKept(t, noon)
	for at := noon.Unix() - 8*86400; at < noon.Unix(); at += 43200 { // late hits are minutes, however old they are
		k.add(t, hit{annWithin, at, 1})
	}
	code, body := k.get("/api/v1/history?from=-8d&step=1m")
	if want := "step: this range has 11521 steps of 1m, more than 10000: use wider ones."; code != 400 || body != want {
		t.Errorf("8 days by the minute gave %d %.200s, want 400 %s", code, body, want)
	}
}

// One hit an hour, and hours are all that is stored: each way of asking gives the hits of as many hours as the days
// have.
func TestHalfHourZonesHaveExactDays(t *testing.T) {
	k := newKept(t, noon)
	for at := noon.Unix() - 30*86400; at < noon.Unix()-10*86400; at += 3600 {
		k.add(t, hit{annWithin, at, 1})
	}
	historytest.Downsample(t, k.store, k.now)
	for _, c := range []struct {
		zone, from, to string
		days, hits     int
	}{
		{"Asia/Kolkata", "2026-10-31", "2026-11-01", 1, 24}, {"Asia/Kolkata", "2026-10-31", "2026-11-03", 3, 72},
		{"Asia/Kathmandu", "2026-10-31", "2026-11-01", 1, 24}, {"Australia/Adelaide", "2026-10-31", "2026-11-01", 1, 24},
		{"America/St_Johns", "2026-10-31", "2026-11-01", 1, 24}, {"America/St_Johns", "2026-11-01", "2026-11-02", 1, 25}, // clocks go back
	} {
		of := "from=" + c.from + "&to=" + c.to + "&tz=" + c.zone
		for how, buckets := range map[string]int{"step=1d": c.days, "step=6h": 4 * c.days, "step=1h": c.hits, "step=15m": c.hits, "": c.hits,
			fmt.Sprintf("points=%d", c.days): c.days} {
			if c.hits == 25 && how == "step=6h" {
				buckets++ // of the hour that comes twice
			}
			a := historyapi.HistoryAnswer{}
			k.ask(t, "?"+of+"&"+how, &a)
			if s := a.Series[0]; s.Total != uint64(c.hits) || len(s.Points) != buckets {
				t.Errorf("%s with %q: %d hits in %d buckets, want %d in %d", of, how, s.Total, len(s.Points), c.hits, buckets)
			}
		}
		var top historyapi.TopAnswer
		if k.ask(t, "/top?"+of, &top); top.Total != uint64(c.hits) || top.Since < top.From || top.Until > top.To {
			t.Errorf("top of %s: %d hits from %d to %d in %d to %d, want %d, in the range", of, top.Total, top.Since, top.Until, top.From, top.To, c.hits)
		}
	}
}

func TestTimesWithoutZoneUseTheRequestedZone(t *testing.T) {
	k := threeMonths(t)
	for query, want := range map[string]int64{
		"?from=2026-11-21":                                     1795219200,
		"?from=2026-11-21&tz=Europe/Berlin":                    1795215600,
		"?from=2026-11-20&to=2026-11-21&outcome=over&points=1": 1795132800,
		"/top?from=2026-11-21&tz=Asia/Kolkata":                 1795199400,
	} {
		var a struct{ From int64 }
		if k.ask(t, query, &a); a.From != want {
			t.Errorf("%s begins at %d, want %d", query, a.From, want)
		}
	}
}

// Sums and largest minutes of the values of a rule are added up, bucket by bucket; the tier is the coarsest.
func TestRuleAddsUpItsValues(t *testing.T) {
	k := newKept(t, noon)
	one, two := history.ID{Domain: "a", Path: "b", Value: "v=1"}, history.ID{Domain: "a", Path: "b", Value: "v=2"}
	old, recent := noon.Add(-26*time.Hour).Truncate(time.Minute).Unix(), noon.Add(-time.Hour).Truncate(time.Minute).Unix()
	k.add(t, hit{one, recent, 3}, hit{one, recent + 60, 5}, hit{two, recent, 4}, hit{two, old, 7}, hit{history.ID{Domain: "a", Path: "c"}, recent, 1})
	historytest.Downsample(t, k.store, k.now)
	a := k.answer(t, url.Values{"from": {"-2d"}, "step": {"1d"}, "values": {"false"}})
	if len(a.Series) != 2 || a.Series[0].SeriesName != (historyapi.SeriesName{Domain: "a", Path: "b", Outcome: "within"}) ||
		a.Series[0].Total != 19 || a.Series[0].Lifetime != 19 {
		t.Fatalf("added up are %+v, want 19 hits of one rule, and another rule", a.Series)
	}
	day := noon.Truncate(24 * time.Hour).Unix()
	for i, want := range []historyapi.PointAnswer{{Start: day - 2*86400, Width: 86400}, {Start: day - 86400, Width: 86400, Sum: 7, Peak: 7, Tier: "5m"},
		{Start: day, Width: 86400, Sum: 12, Peak: 9, Tier: "1m", Partial: true}} {
		if got := a.Series[0].Points[i]; got != want {
			t.Errorf("bucket %d is %+v, want %+v", i, got, want)
		}
	}
	all := k.answer(t, url.Values{"from": {"-2d"}, "step": {"1d"}, "rules": {"false"}})
	if len(all.Series) != 1 || all.Series[0].SeriesName != (historyapi.SeriesName{Outcome: "within"}) || all.Series[0].Total != 20 ||
		all.Series[0].Points[2].Sum != 13 {
		t.Errorf("rules=false answers %+v, want one curve of all 20 hits", all.Series)
	}
	for parameters, want := range map[string]int{"": 3, "&values=false": 2, "&values=false&value=v%3D2": 1} {
		var top historyapi.TopAnswer
		k.ask(t, "/top?from=-2d"+parameters, &top)
		if len(top.Top) != want || top.Top[0].Hits != map[int]uint64{3: 11, 2: 19, 1: 11}[want] {
			t.Errorf("top with %q ranks %+v, want %d rows", parameters, top.Top, want)
		}
	}
}

func TestAnswerNamesMissingAndNestedHits(t *testing.T) {
	k := newKept(t, noon)
	k.History = historyapi.New(k.store, 15*time.Second, func() time.Time { return k.now })
	for query, want := range map[string]string{"?": `"no_series":true,"lag":15,`, "/top": `"no_series":true,"lag":15,`, "/verify": `"lag":15}`,
		"?to=2026-11-21T11:00:00Z": `"no_series":true,"warnings"`} {
		if code, body := k.get("/api/v1/history" + query); code != 200 || !strings.Contains(body, want) {
			t.Errorf("an empty history answers %s with %d %s, want %s: hits of the last seconds are not there yet", query, code, body, want)
		}
	}
	near := annWithin
	near.Outcome = history.Near
	k.add(t, hit{annWithin, noon.Unix(), 7}, hit{near, noon.Unix(), 2})
	_, body := k.get("/api/v1/history?")
	if !strings.Contains(body, `"outcome":"near","value":"","part_of":"within",`) || strings.Count(body, "part_of") != 1 || strings.Contains(body, "no_series") {
		t.Errorf("answered is %s, want near, and it alone, as part of within: the others add up to all hits", body)
	}
}
