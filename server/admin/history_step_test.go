package admin

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/query"
)

// Where days begin is proven in backend/history.
func TestAStepThatIsTooFineIsWidenedOrRefused(t *testing.T) {
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
		var a query.HistoryAnswer
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
	if want := `{"error":"step: this range has 11521 steps of 1m, more than 10000: use wider ones."}`; code != 400 || body != want {
		t.Errorf("8 days by the minute gave %d %.200s, want 400 %s", code, body, want)
	}
}

func TestTimesWithoutAZoneAreOfTheZoneAskedFor(t *testing.T) {
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

func TestAValueIsFoundAsPeopleAreShownIt(t *testing.T) {
	k := newKept(t, noon)
	k.add(t, hit{history.ID{Domain: "api", Path: "tenant", Value: "tenant=%2Fn7"}, noon.Unix(), 1})
	if a := k.answer(t, url.Values{"path": {"tenant"}, "value": {"tenant=/n7"}}); len(a.Series) != 1 || a.Series[0].Value != "tenant=%2Fn7" {
		t.Errorf("a value as people are shown it gives %+v, want that series", a.Series)
	}
}

func TestARangeWithoutHitsSaysWhereThereAreSome(t *testing.T) {
	k := threeMonths(t)
	since, until := noon.Truncate(24*time.Hour).Add(-80*24*time.Hour).Unix(), noon.Unix()/60*60+60
	var top query.TopAnswer
	if k.ask(t, "/top?from=2020-01-01&to=2020-02-01", &top); top.Since != since || top.Until != until {
		t.Errorf("top of a month long before gave %+v, want since %d until %d", top, since, until)
	}
	a := k.answer(t, url.Values{"from": {"2020-01-01"}, "to": {"2020-02-01"}, "domain": {"mail"}})
	if a.Since != noon.Truncate(24*time.Hour).Add(-40*24*time.Hour).Unix() || a.Until != until-120 {
		t.Errorf("a month long before gives since %d until %d", a.Since, a.Until)
	}
}
