package hits

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

const shop = `
domain: shop
descriptors:
  - {key: user, rate_limit: {requests_per_unit: 10, unit: minute}}
  - {key: tenant, value_to_metric: true, rate_limit: {requests_per_unit: 10, unit: minute}}
`

// moved has a rule in front, so that all others have other numbers than in shop, and no tenants.
const moved = `
domain: shop
descriptors:
  - {key: path, rate_limit: {requests_per_unit: 10, unit: minute}}
  - {key: user, rate_limit: {requests_per_unit: 99, unit: hour}}
`

func parse(t testing.TB, text string) *descriptors.Config {
	t.Helper()
	c, problems := yaml.Parse([]yaml.File{{Name: "f", Data: []byte(text)}}, yaml.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

// at returns the counter of a descriptor of one entry.
func at(table *Table, c *descriptors.Config, domain, key, value string) *Counter {
	d := descriptors.Descriptor{{Key: key, Value: value}}
	return table.Counter(c.Match(domain, d).Rule, domain, d)
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// drained returns what a drain hands out.
func drained(t testing.TB, r *Recorder, now time.Time) map[history.ID]uint64 {
	t.Helper()
	all := make(map[history.ID]uint64)
	r.Drain(now, func(id history.ID, hits uint64) {
		if all[id] > 0 || hits == 0 {
			t.Errorf("%+v is handed out twice or empty; each series comes once, with what it has", id)
		}
		all[id] = hits
	})
	return all
}

func expect(t *testing.T, got map[history.ID]uint64, want map[history.ID]uint64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("drained\n  %v\nwant\n  %v", got, want)
	}
}

func TestEachHitIsHandedOutOnce(t *testing.T) {
	r, c := New(DefaultValues), parse(t, shop)
	table := r.Table(c)
	at(table, c, "shop", "user", "ann").Admit(5, 2)
	at(table, c, "shop", "user", "bob").Deny(3, false)
	at(table, c, "shop", "tenant", "a/b").Deny(4, true)
	at(table, c, "shop", "nothing", "").Admit(6, 0)
	at(table, c, "nowhere", "user", "ann").Admit(7, 0)
	at(table, c, "elsewhere", "user", "ann").Admit(1, 0)
	at(table, c, "shop", "user", "eve").Degrade(8)
	want := map[history.ID]uint64{
		{Domain: "shop", Path: "user", Outcome: history.Within}:                           5,
		{Domain: "shop", Path: "user", Outcome: history.Near}:                             2,
		{Domain: "shop", Path: "user", Outcome: history.Over}:                             3,
		{Domain: "shop", Path: "user", Outcome: history.Degraded}:                         8,
		{Domain: "shop", Path: "tenant", Outcome: history.Over, Value: "tenant=a%2Fb"}:    4,
		{Domain: "shop", Path: "tenant", Outcome: history.Shadow, Value: "tenant=a%2Fb"}:  4,
		{Domain: "shop", Path: history.Unmatched, Outcome: history.Within}:                6,
		{Domain: history.UnknownDomain, Path: history.Unmatched, Outcome: history.Within}: 8,
	}
	expect(t, drained(t, r, noon), want)
	expect(t, drained(t, r, noon), map[history.ID]uint64{})
	at(table, c, "shop", "user", "ann").Admit(1, 0)
	r.Drain(noon, func(history.ID, uint64) { at(table, c, "shop", "user", "ann").Admit(2, 0) }) // comes meanwhile
	expect(t, drained(t, r, noon), map[history.ID]uint64{{Domain: "shop", Path: "user"}: 2})
}

func TestTotalsGoOnWhatIsDrained(t *testing.T) {
	r, c := New(DefaultValues), parse(t, shop)
	table := r.Table(c)
	for _, value := range []string{"a", "b"} {
		at(table, c, "shop", "tenant", value).Admit(5, 1)
		at(table, c, "shop", "tenant", value).Deny(2, true)
		drained(t, r, noon)
	}
	want := []Totals{{Domain: "shop", Path: "tenant", Within: 10, Near: 2, Over: 4, Shadow: 4}}
	if got := r.Totals(); !slices.Equal(got, want) {
		t.Errorf("totals are %+v; want %+v: they never go down, and values are one there", got, want)
	}
}

// Whole before part when adding, part before whole when reading: at no moment are there more near hits than hits. What is
// counted while a drain hands out comes with the next.
func TestDrainsBesideHitsLoseNoneAndNoPartIsLargerThanItsWhole(t *testing.T) {
	r, c := New(0), parse(t, shop)
	counter := at(r.Table(c), c, "shop", "user", "")
	var stop atomic.Bool
	var running sync.WaitGroup
	var admitted uint64
	running.Go(func() {
		for ; !stop.Load(); admitted++ {
			counter.Admit(1, 1)
		}
	})
	var within, near uint64
	for last := range 5_000 {
		if last == 4_999 {
			stop.Store(true)
			running.Wait()
		}
		for id, hits := range drained(t, r, noon) {
			if id.Outcome == history.Near {
				near += hits
			} else {
				within += hits
			}
		}
		if near > within {
			t.Fatalf("%d hits near the limit, of %d in all", near, within)
		}
	}
	if within != admitted || near != admitted {
		t.Errorf("%d hits and %d near ones were handed out, %d were counted; want each once", within, near, admitted)
	}
}

func TestARuleThatIsGoneStaysUntilItIsDrainedAndIdle(t *testing.T) {
	r := New(DefaultValues)
	old := parse(t, shop)
	late := at(r.Table(old), old, "shop", "tenant", "a") // held by a request in flight
	late.Admit(1, 0)
	now := noon
	expect(t, drained(t, r, now), map[history.ID]uint64{{Domain: "shop", Path: "tenant", Value: "tenant=a"}: 1})
	r.Table(parse(t, moved))
	late.Admit(2, 0)
	known := func() bool {
		return slices.ContainsFunc(r.Totals(), func(t Totals) bool { return t.Path == "tenant" })
	}
	for range 12 { // the first of them finds the two hits
		now = now.Add(10 * time.Second)
		drained(t, r, now)
	}
	if !known() {
		t.Fatal("the rule is forgotten within two minutes of its last hit; a request may still count there")
	}
	late.Admit(4, 0)
	now = now.Add(time.Hour)
	expect(t, drained(t, r, now), map[history.ID]uint64{{Domain: "shop", Path: "tenant", Value: "tenant=a"}: 4})
	if !known() {
		t.Fatal("the rule is forgotten in the drain that found hits there")
	}
	now = now.Add(time.Hour)
	if drained(t, r, now); !known() {
		t.Fatal("the rule is forgotten in the first drain after an hour; if the process stood still, so did the request")
	}
	if drained(t, r, now.Add(10*time.Second)); known() {
		t.Error("the rule is still known an hour after its last hit; reloads would fill memory")
	}
	if again := at(r.Table(old), old, "shop", "tenant", "a"); again == late {
		t.Error("the rule came back with its old counters")
	}
}

// A reload overtakes a rule's first request: the new table looked for its counters before that request made them.
func TestARuleWhoseFirstHitWasOvertakenByAReloadIsNotForgotten(t *testing.T) {
	r := New(0)
	c := parse(t, shop)
	before, after := r.Table(c), r.Table(c)
	at(before, c, "shop", "user", "").Admit(3, 0)
	at(before, c, "nowhere", "user", "").Admit(2, 0)
	for i := range 10 {
		drained(t, r, noon.Add(time.Duration(i)*time.Minute))
	}
	at(after, c, "shop", "user", "").Admit(1, 0)
	got := make(map[string]uint64)
	for _, one := range r.Totals() {
		got[one.Domain+" "+one.Path] = one.Within
	}
	if got["shop user"] != 4 || got["__unknown__ __unmatched__"] != 2 {
		t.Errorf("the totals are %v, want 4 and 2: what Prometheus was shown of a rule goes down only if the rule goes", got)
	}
}

func TestARuleThatIsThereIsNeverForgotten(t *testing.T) {
	r := New(0)
	c := parse(t, shop)
	counter := at(r.Table(c), c, "shop", "user", "")
	counter.Admit(1, 0)
	now := noon
	for range 100 { // reloads, none of which is followed by a hit
		r.Table(c)
		for range 5 {
			now = now.Add(time.Minute)
			drained(t, r, now)
		}
	}
	if want := []Totals{{Domain: "shop", Path: "user", Within: 1}}; !slices.Equal(r.Totals(), want) {
		t.Errorf("totals are %+v, want %+v: a rule's totals never go down while it is there", r.Totals(), want)
	}
	if at(r.Table(c), c, "shop", "user", "") != counter {
		t.Error("the rule has other counters than before; it goes on where it was")
	}
}

func TestRulesWithoutHitsTakeNoCounters(t *testing.T) {
	r := New(DefaultValues)
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors:\n")
	for i := range 100 {
		fmt.Fprintf(&text, "- {key: user, value: u%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
	}
	c := parse(t, text.String())
	table := r.Table(c)
	at(table, c, "shop", "user", "u7").Admit(1, 0)
	if n := len(r.rules); n != 1 {
		t.Errorf("%d of 100 rules have counters, though one was hit; reloads of many rules would fill memory", n)
	}
}

func TestValuesBeyondTheCapAreOther(t *testing.T) {
	r, c := New(2), parse(t, shop)
	table := r.Table(c)
	for _, value := range []string{"a", "b", "c", "d", "a", "c"} {
		at(table, c, "shop", "tenant", value).Admit(1, 0)
	}
	at(table, c, "shop", "tenant", "b").Admit(1, 0)
	expect(t, drained(t, r, noon), map[history.ID]uint64{
		{Domain: "shop", Path: "tenant", Value: "tenant=a"}:         2,
		{Domain: "shop", Path: "tenant", Value: "tenant=b"}:         2,
		{Domain: "shop", Path: "tenant", Value: history.OtherValue}: 3,
	})
}

func TestALongValueIsOther(t *testing.T) {
	r, c := New(100), parse(t, shop)
	table := r.Table(c)
	longest := strings.Repeat("v", maxValue-len("tenant="))
	for _, value := range []string{longest, longest + "v", strings.Repeat("/", 100), strings.Repeat("v", 1<<20)} {
		at(table, c, "shop", "tenant", value).Admit(1, 0)
	}
	expect(t, drained(t, r, noon), map[history.ID]uint64{
		{Domain: "shop", Path: "tenant", Value: "tenant=" + longest}: 1,
		{Domain: "shop", Path: "tenant", Value: history.OtherValue}:  3,
	})
}

func TestWithoutValuesARuleIsOneSeries(t *testing.T) {
	r, c := New(0), parse(t, shop)
	table := r.Table(c)
	at(table, c, "shop", "tenant", "a").Admit(1, 0)
	at(table, c, "shop", "tenant", "b").Admit(1, 0)
	expect(t, drained(t, r, noon), map[history.ID]uint64{{Domain: "shop", Path: "tenant"}: 2})
}

func TestHugeHitsDoNotWrap(t *testing.T) {
	r, c := New(0), parse(t, shop)
	counter := at(r.Table(c), c, "shop", "user", "")
	for range 1000 {
		counter.Deny(math.MaxUint64, false)
		counter.Admit(math.MaxUint64, math.MaxUint64)
	}
	expect(t, drained(t, r, noon), map[history.ID]uint64{
		{Domain: "shop", Path: "user", Outcome: history.Over}:   1000 * MaxHits,
		{Domain: "shop", Path: "user", Outcome: history.Within}: 1000 * MaxHits,
		{Domain: "shop", Path: "user", Outcome: history.Near}:   1000 * MaxHits,
	})
}

// The vectors of envoyproxy/ratelimit's own test, as far as they are admitted.
func TestNear(t *testing.T) {
	for _, tc := range []struct {
		requests, before, hits uint64
		share                  float32
		want                   uint64
	}{
		{15, 10, 1, 0.8, 0}, {15, 12, 1, 0.8, 1}, {20, 2, 3, 0.8, 0}, {8, 5, 2, 0.8, 1}, {20, 16, 3, 0.8, 3}, {15, 11, 1, 0.8, 0},
		{10, 0, 10, 0.8, 2}, {0, 0, 0, 0.8, 0}, {1, 0, 1, 0.8, 1}, {math.MaxUint32, 0, 1000, 0.8, 0},
		{10, 4, 2, 0.5, 1}, {10, 0, 10, 1, 0}, {10, 0, 10, 0.05, 10},
	} {
		if got := Near(tc.requests, tc.before, tc.hits, tc.share); got != tc.want {
			t.Errorf("%d hits after %d, of %d: %d are above %v of the limit; want %d",
				tc.hits, tc.before, tc.requests, got, tc.share, tc.want)
		}
	}
}
