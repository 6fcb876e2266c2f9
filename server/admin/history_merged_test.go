package admin

import (
	"net/url"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/query"
)

// Sums and largest minutes of the values of a rule are added up, bucket by bucket; the tier is the coarsest.
func TestTheValuesOfARuleAreAddedUp(t *testing.T) {
	k := newKept(t, noon)
	one, two := history.ID{Domain: "a", Path: "b", Value: "v=1"}, history.ID{Domain: "a", Path: "b", Value: "v=2"}
	old, recent := noon.Add(-26*time.Hour).Truncate(time.Minute).Unix(), noon.Add(-time.Hour).Truncate(time.Minute).Unix()
	k.add(t, hit{one, recent, 3}, hit{one, recent + 60, 5}, hit{two, recent, 4}, hit{two, old, 7}, hit{history.ID{Domain: "a", Path: "c"}, recent, 1})
	k.roll(t)
	a := k.answer(t, url.Values{"from": {"-2d"}, "step": {"1d"}, "values": {"false"}})
	if len(a.Series) != 2 || a.Series[0].SeriesName != (query.SeriesName{Domain: "a", Path: "b", Outcome: "within"}) ||
		a.Series[0].Total != 19 || a.Series[0].Lifetime != 19 {
		t.Fatalf("added up are %+v, want 19 hits of one rule, and another rule", a.Series)
	}
	day := noon.Truncate(24 * time.Hour).Unix()
	for i, want := range []query.PointAnswer{{Start: day - 2*86400, Width: 86400}, {Start: day - 86400, Width: 86400, Sum: 7, Peak: 7, Tier: "5m"},
		{Start: day, Width: 86400, Sum: 12, Peak: 9, Tier: "1m", Partial: true}} {
		if got := a.Series[0].Points[i]; got != want {
			t.Errorf("bucket %d is %+v, want %+v", i, got, want)
		}
	}
	all := k.answer(t, url.Values{"from": {"-2d"}, "step": {"1d"}, "rules": {"false"}})
	if len(all.Series) != 1 || all.Series[0].SeriesName != (query.SeriesName{Outcome: "within"}) || all.Series[0].Total != 20 ||
		all.Series[0].Points[2].Sum != 13 {
		t.Errorf("rules=false answers %+v, want one curve of all 20 hits", all.Series)
	}
	for parameters, want := range map[string]int{"": 3, "&values=false": 2, "&values=false&value=v%3D2": 1} {
		var top query.TopAnswer
		k.ask(t, "/top?from=-2d"+parameters, &top)
		if len(top.Top) != want || top.Top[0].Hits != map[int]uint64{3: 11, 2: 19, 1: 11}[want] {
			t.Errorf("top with %q ranks %+v, want %d rows", parameters, top.Top, want)
		}
	}
}
