package hits

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
)

const shop = `
domain: shop
descriptors:
  - {key: user, rate_limit: {requests_per_unit: 10, unit: minute}}
  - {key: tenant, value_to_metric: true, rate_limit: {requests_per_unit: 10, unit: minute}}
`

// maxTestValues is the maxValues of the tests' recorders.
const maxTestValues = 100

// withReserved is maxTestValues and the reserve for heavy values.
const withReserved = maxTestValues + maxTestValues/4

// ruleCounter is the counter of a descriptor, with its rule.
type ruleCounter struct {
	*Counter
	rule *descriptors.Rule
	d    descriptors.Descriptor
}

// counterAt returns the counter of a descriptor with one entry.
func counterAt(table *Table, c *descriptors.Config, domain, key, value string) ruleCounter {
	d := descriptors.Descriptor{{Key: key, Value: value}}
	rule := c.Match(domain, d).Rule
	return ruleCounter{table.Counter(rule, domain), rule, d}
}

func (s ruleCounter) RecordUnlimited(hits uint64) { s.Counter.RecordUnlimited(s.rule, s.d, hits) }

func (s ruleCounter) Record(check *backend.Check, d *backend.Decision, m Modes) {
	key := s.recorder.Key(s.d.AppendShort(nil, maxDescriptor))
	s.Counter.Record(&Event{Rule: s.rule, Descriptor: s.d, Key: key, At: noon, Check: check, Decision: d}, m)
}

// checkOf returns a check of hits under a limit of 10, which charges admitted hits.
func checkOf(hits uint64) *backend.Check {
	return &backend.Check{Limits: []descriptors.Limit{{Requests: 10}}, Hits: hits, Charge: descriptors.ChargeAdmitted}
}

// Decisions on it.
var (
	within   = &backend.Decision{Allowed: true}
	nearTwo  = &backend.Decision{Allowed: true, Before: 5} // of five hits
	over     = &backend.Decision{}
	degraded = &backend.Decision{Allowed: true, Source: backend.FromPolicy}
	modes    = Modes{NearRatio: 0.8}
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// drainAll returns the hits of a drain by series.
func drainAll(t testing.TB, r *Recorder, now time.Time) map[history.ID]uint64 {
	t.Helper()
	all := make(map[history.ID]uint64)
	r.Drain(now, func(id history.ID, hits uint64) {
		if all[id] > 0 || hits == 0 {
			t.Errorf("Drain emits %+v twice or without hits; want each series once, with all its hits", id)
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

func TestDrainReturnsEachHitOnce(t *testing.T) {
	r, c := New(maxTestValues), fixture.Config(t, shop)
	table := r.Table(c)
	counterAt(table, c, "shop", "user", "ann").Record(checkOf(5), nearTwo, modes)
	counterAt(table, c, "shop", "user", "bob").Record(checkOf(3), over, modes)
	counterAt(table, c, "shop", "tenant", "a/b").Record(checkOf(4), over, Modes{Passing: true})
	counterAt(table, c, "shop", "nothing", "").RecordUnlimited(6)
	counterAt(table, c, "nowhere", "user", "ann").RecordUnlimited(7)
	counterAt(table, c, "elsewhere", "user", "ann").RecordUnlimited(1)
	counterAt(table, c, "shop", "user", "eve").Record(checkOf(8), degraded, modes)
	want := map[history.ID]uint64{
		{Domain: "shop", Path: "user", Outcome: history.Within}:                                           5,
		{Domain: "shop", Path: "user", Outcome: history.Near}:                                             2,
		{Domain: "shop", Path: "user", Outcome: history.Over}:                                             3,
		{Domain: "shop", Path: "user", Outcome: history.Degraded}:                                         8,
		{Domain: "shop", Path: "tenant", Outcome: history.Shadow, Value: "tenant=a%2Fb"}:                  4,
		{Domain: "shop", Path: descriptors.UnmatchedPath, Outcome: history.Within}:                        6,
		{Domain: descriptors.UnknownDomainName, Path: descriptors.UnmatchedPath, Outcome: history.Within}: 8,
	}
	expect(t, drainAll(t, r, noon), want)
	expect(t, drainAll(t, r, noon), map[history.ID]uint64{})
	counterAt(table, c, "shop", "user", "ann").RecordUnlimited(1)
	r.Drain(noon, func(history.ID, uint64) { counterAt(table, c, "shop", "user", "ann").RecordUnlimited(2) }) // comes meanwhile
	expect(t, drainAll(t, r, noon), map[history.ID]uint64{{Domain: "shop", Path: "user"}: 2})
	counterAt(table, c, "shop", "tenant", "b").Record(checkOf(2), over, Modes{Shadow: true})
	for _, want := range []Totals{{Domain: "shop", Path: "user", Within: 8, Near: 2, Over: 3, Degraded: 8},
		{Domain: "shop", Path: "tenant", Shadow: 6}} {
		if !slices.Contains(r.Totals(), want) {
			t.Errorf("totals are %+v; want %+v: they never go down, and values are one there", r.Totals(), want)
		}
	}
}

// Writers add hits before near hits, and readers read them in the other order, so nobody sees more near hits than hits.
// The next drain has the hits that are counted during one. The ranking misses no hit of a hot key.
func TestConcurrentReadsLoseNoHits(t *testing.T) {
	r, c := New(0), fixture.Config(t, shop)
	counter := counterAt(r.Table(c), c, "shop", "user", "")
	const writers, each = 3, 5000
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for range each {
				counter.Record(checkOf(1), &backend.Decision{Allowed: true, Before: 8}, modes)
			}
		})
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	var within, near, ranked uint64
	for last := false; !last; {
		select {
		case <-ended:
			last = true
		default:
		}
		if top := r.TopKeys(noon).Keys; len(top) > 0 {
			ranked = top[0].Within
		}
		for id, hits := range drainAll(t, r, noon) {
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
	if within != writers*each || near != within || ranked != within {
		t.Errorf("%d hits and %d near ones were handed out, %d are ranked, of %d; want each once", within, near, ranked, writers*each)
	}
}

// Package byrule tests how long the counters of a removed rule stay.
func TestHitsOfRemovedRulesAreDrained(t *testing.T) {
	r, c := New(maxTestValues), fixture.Config(t, shop)
	late := counterAt(r.Table(c), c, "shop", "tenant", "a") // a request in flight uses it
	r.Table(fixture.Config(t, "domain: shop"))
	for i := range 4 {
		late.RecordUnlimited(4)
		want := map[history.ID]uint64{{Domain: "shop", Path: "tenant", Value: "tenant=a"}: 4}
		if i == 3 {
			want = map[history.ID]uint64{} // it is forgotten by now
		}
		expect(t, drainAll(t, r, noon.Add(time.Duration(i)*byrule.Grace)), want)
	}
}

func TestLongValuesCountAsOther(t *testing.T) {
	longest := strings.Repeat("v", descriptors.MaxValue-len("tenant="))
	for values, want := range map[int]map[history.ID]uint64{
		maxTestValues: {{Domain: "shop", Path: "tenant", Value: "tenant=" + longest}: 1, {Domain: "shop", Path: "tenant", Value: history.OtherValue}: 3},
		0:             {{Domain: "shop", Path: "tenant"}: 4},
	} {
		r, c := New(values), fixture.Config(t, shop)
		for _, value := range []string{longest, longest + "v", strings.Repeat("/", 100), strings.Repeat("v", 1<<20)} {
			counterAt(r.Table(c), c, "shop", "tenant", value).RecordUnlimited(1)
		}
		expect(t, drainAll(t, r, noon), want)
	}
}

func TestHugeHitsDoNotOverflow(t *testing.T) {
	r, c := New(0), fixture.Config(t, shop)
	counter := counterAt(r.Table(c), c, "shop", "user", "")
	for range 1000 {
		counter.Record(checkOf(math.MaxUint64), over, modes)
		counter.Record(&backend.Check{Limits: []descriptors.Limit{{Requests: math.MaxUint64}}, Hits: math.MaxUint64}, within, modes)
	}
	expect(t, drainAll(t, r, noon), map[history.ID]uint64{
		{Domain: "shop", Path: "user", Outcome: history.Over}:   1000 * MaxHits,
		{Domain: "shop", Path: "user", Outcome: history.Within}: 1000 * MaxHits,
		{Domain: "shop", Path: "user", Outcome: history.Near}:   1000 * MaxHits,
	})
}
