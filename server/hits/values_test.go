package hits

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

// fleet is several recorders, the exact counts, and the hits that they have drained.
type fleet struct {
	counters []func(value uint64) ruleCounter
	weirs    []*Recorder
	exact    map[uint64]uint64 // by value
	drained  map[history.ID]uint64
}

func newFleet(t *testing.T, weirs int) *fleet {
	t.Helper()
	s := &fleet{exact: make(map[uint64]uint64), drained: make(map[history.ID]uint64)}
	c := fixture.Config(t, shop)
	for range weirs {
		r := New(maxTestValues)
		table := r.Table(c)
		s.weirs = append(s.weirs, r)
		s.counters = append(s.counters, func(value uint64) ruleCounter { return counterAt(table, c, "shop", "tenant", fmt.Sprint(value)) })
	}
	return s
}

// flush drains all recorders, as their exporters do.
func (f *fleet) flush() {
	for _, r := range f.weirs {
		r.Drain(noon, func(id history.ID, hits uint64) { f.drained[id] += hits })
	}
}

// sum returns the drained hits of an outcome, and in how many series of values they are.
func (f *fleet) sum(o history.Outcome) (hits uint64, values int) {
	for id, n := range f.drained {
		if id.Outcome == o {
			hits += n
			if id.Value != history.OtherValue {
				values++
			}
		}
	}
	return hits, values
}

func top(of map[uint64]uint64, n int) []uint64 {
	return slices.SortedFunc(maps.Keys(of), func(a, b uint64) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })[:n]
}

// A million values have shares that fall as 1/rank^1.1. Three recorders together find the top ten, among them one that
// comes late. The hits of a value are a lower bound; the rest of all hits is in __other__.
func TestTopTenOfManyValuesAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	zipf := rand.NewZipf(random, 1.1, 1, 1_000_000-1)
	s := newFleet(t, 3)
	flushes, each := 8, 50_000
	if testing.Short() {
		each = 5_000
	}
	for flush := range flushes {
		for range each {
			value := zipf.Uint64()
			if value == 1 && flush < flushes/2 { // it comes late
				value = 1000
			}
			s.exact[value]++
			s.counters[random.IntN(3)](value).RecordUnlimited(1)
		}
		s.flush()
	}
	bounds := make(map[uint64]uint64)
	for value, exact := range s.exact {
		id := history.ID{Domain: "shop", Path: "tenant", Value: fmt.Sprint("tenant=", value)}
		if bounds[value] = s.drained[id]; bounds[value] > exact || bounds[value]+uint64(flushes*each/(maxTestValues+1)) < exact {
			t.Errorf("value %d had %d hits, and %d are drained; want no more, and at most a 101st of all fewer", value, exact, bounds[value])
		}
	}
	if sum, values := s.sum(history.Within); sum != uint64(flushes*each) || values > 3*maxTestValues {
		t.Errorf("%d hits are drained in %d series of values, want all %d in at most %d", sum, values, flushes*each, 3*maxTestValues)
	}
	if got, want := top(bounds, 10), top(s.exact, 10); !slices.Equal(got, want) {
		t.Errorf("the top ten are %v, want %v", got, want)
	}
}

// Any value gets a series while the quota lasts. The reserve is for heavy values.
func TestFreeSeriesGoToAnyValue(t *testing.T) {
	s := newFleet(t, 1)
	comes := func(from, to uint64) (values int) {
		for range 3 { // flushes
			for value := from; value < to; value++ {
				s.counters[0](value).RecordUnlimited(1)
			}
			s.flush()
		}
		_, values = s.sum(history.Within)
		return values
	}
	for _, n := range []uint64{30, maxTestValues} {
		if values := comes(0, n); values != int(n) {
			t.Errorf("%d values of one hit a flush have %d series, want one each: %d places are free", n, values, maxTestValues)
		}
	}
	if values := comes(maxTestValues, 2*maxTestValues); values != maxTestValues {
		t.Errorf("%d values have a series, want %d: values that come once take no reserved place", values, maxTestValues)
	}
}

// The number of a rule's series stays bounded, however many values come and however often weirs restart.
func TestMillionNewValuesKeepTheSeriesBound(t *testing.T) {
	handed := make(map[history.ID]uint64)
	value, fresh, heavy := uint64(0), uint64(4000), uint64(300) // so many between two drains
	if testing.Short() {
		fresh, heavy = 300, 30
	}
	for range 10 {
		s := newFleet(t, 1)
		s.weirs[0].SyncSeries(slices.Collect(maps.Keys(handed)))
		for range 25 {
			for range fresh {
				value++
				s.counters[0](value%1_000_000).Record(checkOf(1), []*backend.Decision{within, over}[value&1], modes)
			}
			for n := range heavy { // a few values, others each time
				s.counters[0](value%1_000_000+n%3).Record(checkOf(9), nearTwo, modes)
			}
			s.flush()
		}
		for id, hits := range s.drained {
			handed[id] += hits
		}
	}
	s := &fleet{drained: handed}
	for o := range history.Outcome(history.Outcomes) {
		want := map[history.Outcome]uint64{history.Within: 250 * (fresh/2 + 9*heavy), history.Over: 250 * fresh / 2, history.Near: 250 * heavy * 6}[o]
		if hits, values := s.sum(o); values > withReserved || hits != want {
			t.Errorf("%v: %d hits in %d series of values; want all %d, in at most %d", o, hits, values, want, withReserved)
		}
	}
	if _, values := s.sum(history.Within); values < maxTestValues/2 {
		t.Errorf("%d values got a series; want those that were heavy to have one", values)
	}
}

// Values have hits for a week each. For years two recorders drain to one history, which downsamples and expires series.
// There are never more series than the quota allows, a new value with lasting hits gets one, and all series together have
// exactly each day's hits.
func TestLaterHeavyValueGetsASeries(t *testing.T) {
	const places, stays, kept = 10, 1_000_000, 200 // days
	random := rand.New(rand.NewPCG(7, 8))
	now := noon
	keep := history.DefaultRetention()
	keep.Ages[history.Days] = kept * 24 * time.Hour
	store := historytest.NewLedgers(historytest.Options{Retention: keep, Now: func() time.Time { return now }, Step: func(string) {}})
	s := newFleet(t, 2)
	for _, r := range s.weirs {
		r.quota.perRule = places
	}
	ofDay := make(map[int64]uint64)
	weeks, hits := uint64(250), uint64(400)
	if testing.Short() {
		weeks, hits = 70, 200
	}
	for week := range weeks {
		for range 3 {
			for i := range hits {
				value := week*1000 + random.Uint64N(20)*i%hits // 20 of them more than others
				if week > 20 && i%10 == 0 {
					value = stays
				}
				s.counters[random.IntN(2)](value).RecordUnlimited(1)
			}
			clear(s.drained)
			s.flush()
			var all []history.Increment
			for id, hits := range s.drained {
				all = append(all, history.Increment{ID: id, Minute: now.Unix() / 60, Hits: hits})
				ofDay[now.Unix()/86400] += hits
			}
			historytest.Count(t, store, all...)
			now = now.Add(time.Duration(1+random.IntN(3)) * 24 * time.Hour)
			historytest.Downsample(t, store, now)
			var fine []history.ID
			sums := make(map[int64]uint64)
			found := historytest.All(t, store)
			for id, one := range found {
				if one.Fine {
					fine = append(fine, id)
				}
				for _, p := range one.Points {
					sums[p.Start/86400] += p.Sum
				}
			}
			for _, r := range s.weirs {
				r.SyncSeries(fine)
			}
			for day, want := range ofDay {
				if day > now.Unix()/86400-kept && sums[day] != want {
					t.Fatalf("week %d: the series have %d hits of day %d, want all %d", week, sums[day], day, want)
				}
			}
			// Two recorders may use the same free quota between two syncs. The values of a week are gone after at most 44 days.
			if most := 2*(places+places/4) + 1; len(fine) > most || len(found) > most*(kept+44)/30 {
				t.Fatalf("week %d: %d series, %d of them with a place; want at most %d and %d", week, len(found), len(fine), most*(kept+44)/30, most)
			}
			if _, has := found[history.ID{Domain: "shop", Path: "tenant", Value: fmt.Sprint("tenant=", stays)}]; week > 30 && !has {
				t.Fatalf("week %d: the value that came in week 20 has no series, though others have gone since", week)
			}
		}
	}
}

// A client that sends many values with equal hits does not use up the series of values that have more hits later.
func TestEqualValuesDoNotTakeAllSeries(t *testing.T) {
	s := newFleet(t, 1)
	for value := range uint64(maxTestValues) {
		s.counters[0](value).RecordUnlimited(20)
	}
	s.flush()
	s.counters[0](maxTestValues).RecordUnlimited(500_000)
	s.flush()
	if honest := (history.ID{Domain: "shop", Path: "tenant", Value: fmt.Sprint("tenant=", maxTestValues)}); s.drained[honest] != 500_000 {
		t.Errorf("a value of 500,000 hits has a series of %d; want all of them: a hundred values of 20 hits hide it", s.drained[honest])
	}
}

// No value has more near hits than hits, nor have all others together.
func TestNearHitsNeverExceedHits(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	s := newFleet(t, 1)
	for range 20 {
		for range 500 {
			value := random.Uint64N(20) * random.Uint64N(40)
			s.counters[0](value).Record(checkOf(1+random.Uint64N(4)), []*backend.Decision{within, nearTwo, over}[random.IntN(3)],
				Modes{NearRatio: 0.8, Shadow: value%2 == 0})
		}
		clear(s.drained)
		s.flush()
		for id, part := range s.drained {
			whole := id
			whole.Outcome = history.Within
			if id.Outcome == history.Near && part > s.drained[whole] {
				t.Fatalf("%v has %d hits, of which %d are near", whole, s.drained[whole], part)
			}
		}
	}
}
