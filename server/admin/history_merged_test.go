package admin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/query"
)

// valuedHistory is a history of a rule with many values, and of one without, in all tiers.
func valuedHistory(t *testing.T) *kept {
	k := newKept(t, noon)
	random := rand.New(rand.NewPCG(16, 1))
	used := make(map[string]bool)
	var hits []hit
	for range 4000 {
		id := history.ID{Domain: "shop", Path: "user", Value: fmt.Sprint("user=", random.IntN(7)), Outcome: history.Outcome(random.IntN(history.Outcomes))}
		if random.IntN(5) == 0 {
			id.Path, id.Value = "path", ""
		}
		at := noon.Add(-time.Duration(random.Int64N(int64(time.Hour) << random.IntN(12)))).Truncate(time.Minute).Unix()
		if key := fmt.Sprint(id, at); !used[key] {
			used[key] = true
			hits = append(hits, hit{id, at, 1 + random.Uint64N(99)})
		}
	}
	k.add(t, hits...)
	k.roll(t)
	return k
}

func TestTheValuesOfARuleAreAddedUpExactly(t *testing.T) {
	k := valuedHistory(t)
	for _, parameters := range []url.Values{
		{"from": {"-1h"}, "step": {"1m"}}, {"from": {"-100d"}, "step": {"1d"}, "tz": {"Asia/Kolkata"}}, {"from": {"-30d"}, "points": {"50"}},
		{"from": {"-30d"}, "step": {"6h"}, "outcome": {"over"}}, {"from": {"-30d"}, "step": {"6h"}, "path": {"user"}},
	} {
		each := k.answer(t, parameters)
		parameters.Set("values", "false")
		merged := k.answer(t, parameters)
		want := make(map[query.SeriesName]query.SeriesAnswer)
		for _, s := range each.Series {
			s.Value = ""
			sum, there := want[s.SeriesName]
			if !there {
				sum = s
			} else {
				sum.Total, sum.Lifetime = sum.Total+s.Total, sum.Lifetime+s.Lifetime
				for j, p := range s.Points {
					sum.Points[j].Sum += p.Sum
					sum.Points[j].Peak += p.Peak
				}
			}
			for j := range sum.Points {
				sum.Points[j].Tier = "" // that of what is added up is another test's
			}
			want[s.SeriesName] = sum
		}
		if len(merged.Series) != len(want) || len(each.Series) <= len(want) || merged.From != each.From || merged.To != each.To {
			t.Fatalf("%v: %d series of %d, from %d to %d; want one for each of %d rules and outcomes", parameters, len(merged.Series),
				len(each.Series), merged.From, merged.To, len(want))
		}
		for _, got := range merged.Series {
			for j, p := range got.Points {
				if (p.Tier == "") != (p.Sum == 0) {
					t.Errorf("%v: a bucket of %d hits has the tier %q", parameters, p.Sum, p.Tier)
				}
				got.Points[j].Tier = ""
			}
			if sum := want[got.SeriesName]; !reflect.DeepEqual(got, sum) {
				t.Fatalf("%v: added up are\n%+v; the values by themselves make\n%+v", parameters, got, sum)
			}
		}
	}
}

func TestTheTierOfValuesAddedUpIsTheCoarsest(t *testing.T) {
	k := newKept(t, noon)
	old, recent := noon.Add(-26*time.Hour).Unix(), noon.Add(-time.Minute).Unix()
	k.add(t, hit{history.ID{Domain: "a", Path: "b", Value: "v=1"}, recent, 3}, hit{history.ID{Domain: "a", Path: "b", Value: "v=2"}, old, 4})
	k.roll(t)
	a := k.answer(t, url.Values{"from": {"-3d"}, "step": {"7d"}, "values": {"false"}})
	var tier string
	var sum uint64
	for _, p := range a.Series[0].Points {
		if sum += p.Sum; p.Sum > 0 {
			tier = p.Tier
		}
	}
	if len(a.Series) != 1 || sum != 7 || tier != "5m" {
		t.Errorf("hits of 1m and 5m make %+v; want 7 of tier 5m in one series", a.Series)
	}
}

func TestRulesAreRankedWithAllOfTheirValues(t *testing.T) {
	k := valuedHistory(t)
	ask := func(query string) (a query.TopAnswer) {
		code, body := k.get("/api/v1/history/top?from=-30d&n=1000" + query)
		if err := json.Unmarshal([]byte(body), &a); err != nil || code != 200 {
			t.Fatalf("%s gives %d %s", query, code, body)
		}
		return a
	}
	each, merged := ask(""), ask("&values=false")
	if len(merged.Top) != 2 || len(each.Top) != 8 || merged.Found != 2 || merged.Total != each.Total {
		t.Fatalf("%d rows of %d, %d hits of %d; want one for each of 2 rules", len(merged.Top), len(each.Top), merged.Total, each.Total)
	}
	for _, got := range merged.Top {
		want := query.TopRow{Domain: got.Domain, Path: got.Path}
		for _, row := range each.Top {
			if row.Path == got.Path {
				want.Hits, want.Within, want.Over = want.Hits+row.Hits, want.Within+row.Within, want.Over+row.Over
				want.Degraded, want.Near, want.Shadow = want.Degraded+row.Degraded, want.Near+row.Near, want.Shadow+row.Shadow
			}
		}
		if got != want {
			t.Errorf("got %+v; the values by themselves make %+v", got, want)
		}
	}
	if one := ask("&values=false&value=user%3D3"); len(one.Top) != 1 || one.Top[0].Hits >= merged.Top[0].Hits {
		t.Errorf("one value gives %+v; want its own hits", one.Top)
	}
}
