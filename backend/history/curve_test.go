package history

import (
	"flag"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// seed is that of all random tests of the package.
var seed = flag.Uint64("seed", 1, "seed of the random tests")

// rounds is how often a random test is repeated: a third as often in the short form.
func rounds(all int) int {
	if testing.Short() {
		return all / 3
	}
	return all
}

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func unix(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.Unix()
}

// shown is borders as RFC 3339 in a zone.
func shown(borders []int64, zone *time.Location) []string {
	var out []string
	for _, at := range borders {
		out = append(out, time.Unix(at, 0).In(zone).Format(time.RFC3339))
	}
	return out
}

// randomPoints are points as a store may hold them: those of each tier older than those of the next finer one, with
// late ones between them, none of which overlap.
func randomPoints(r *rand.Rand, from, to int64) []Point {
	var points []Point
	at := floorDiv(from, Day) * Day
	for at < to {
		t := Tier(r.IntN(Tiers))
		width := t.Width()
		for range r.IntN(20) {
			if at = ceilDiv(at, width) * width; r.IntN(3) > 0 {
				sum := r.Uint64N(1000) + 1
				points = append(points, Point{at, t, sum, r.Uint64N(sum) + 1})
			}
			at += width
		}
	}
	return points
}

// gather is what a reader of a store does: it cuts, looks at what the cut's range meets, and cuts anew until both
// agree.
func gather(series [][]Point, cut func(*Extent) Cut) (Cut, [][]Point) {
	var met Extent
	for {
		c := cut(&met)
		var seen [][]Point
		for _, points := range series {
			in := slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
				return p.End() <= c.Range().From || p.Start >= c.Range().To
			})
			met.Add(in)
			seen = append(seen, in)
		}
		if again := cut(&met); again.equal(&c) {
			return c, seen
		}
	}
}

// shorter is by how much days may be shorter in all, in a range of two months: half a day where UTC's end and local
// ones begin, an hour in spring, and some minutes between tiers.
const shorter = 14 * Hour

func TestCutNeitherSplitsNorLosesHits(t *testing.T) {
	var zones []*time.Location
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Norfolk",
		"Pacific/Chatham", "Pacific/Apia", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		zones = append(zones, zoneOf(t, name))
	}
	// In the second a step of a day meets the last day that is stored by UTC, see TestCutAlignsRangesToSteps.
	for _, seed := range []uint64{*seed, 4049521516758373129} {
		cutAtRandom(t, seed, zones)
	}
}

func cutAtRandom(t *testing.T, seed uint64, zones []*time.Location) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	for range rounds(3000) {
		start := unix(t, "2010-01-01T00:00:00Z") + r.Int64N(8*365*Day)
		length := Minute + r.Int64N([]int64{Hour, Day, 10 * Day, 60 * Day}[r.IntN(4)])
		asked := Range{start, start + length}
		var series [][]Point
		for range 1 + r.IntN(3) {
			series = append(series, randomPoints(r, asked.From-2*Day, asked.To+2*Day))
		}
		n, zone := 1+r.IntN([]int{3, 40, 2000}[r.IntN(3)]), zones[r.IntN(len(zones))]
		how := func(m *Extent) Cut { return m.cutByNumber(asked, n, zone) }
		if r.IntN(3) == 0 {
			step := []int64{1, 7, 15, 60, 90, 360, 1440, 2 * 1440, 7 * 1440}[r.IntN(9)] * Minute
			n = int((asked.Length()+shorter)/step) + 2
			how = func(m *Extent) Cut { return m.cutByStep(asked, m.stepWidth(step), zone) }
		}
		cut, seen := gather(series, how)
		used := cut.Range()
		if used.From > asked.From || used.To < asked.To || len(cut.Borders)-1 > n || !slices.IsSorted(cut.Borders) {
			t.Fatalf("seed %d: %v cut into %d in %v has %d buckets over %v", seed, asked, n, zone, len(cut.Borders)-1, used)
		}
		for _, points := range seen {
			var want, peak uint64
			for _, p := range points {
				i, _ := slices.BinarySearch(cut.Borders, p.Start+1)
				if i == 0 || p.End() > cut.Borders[i] {
					t.Fatalf("seed %d: %v cut into %d in %v splits the bucket %+v", seed, asked, n, zone, p)
				}
				want, peak = want+p.Sum, max(peak, p.Peak)
			}
			var got, highest uint64
			for i, b := range cut.fill(points) {
				got, highest = got+b.Sum, max(highest, b.Peak)
				if b.Start != cut.Borders[i] || b.End <= b.Start || b.Peak > b.Sum {
					t.Fatalf("seed %d: bucket %+v of %v makes no sense", seed, b, cut.Borders)
				}
			}
			if got != want || highest != peak {
				t.Fatalf("seed %d: the buckets of %v hold %d, at most %d a minute, but stored are %d and %d: hits must neither appear "+
					"nor vanish, and spikes not in the average", seed, used, got, highest, want, peak)
			}
		}
	}
}

func TestCutTakesTheNarrowestRoundWidth(t *testing.T) {
	const noon = 1_800_000_000 / Day * Day
	for _, c := range []struct {
		length, width int64 // of the range, and of what is stored in it
		n             int
		want          []int64 // where the first bucket begins and ends, after noon
	}{
		{Hour, Minute, 67, []int64{0, Minute}},
		{2 * Day, Minute, 67, []int64{0, Hour}},
		{30 * Day, Hour, 67, []int64{0, 12 * Hour}},
		{Hour, 5 * Minute, 67, []int64{0, 5 * Minute}},
		{Hour, Day, 67, []int64{0, Day}},
		{3650 * Day, Minute, 1, []int64{0, 3650 * Day}},
	} {
		m := Extent{}
		for t := range tiers {
			if tiers[t].width == c.width {
				m.Add([]Point{{Start: noon, Tier: Tier(t), Sum: 1}})
			}
		}
		if got := m.cutByNumber(Range{noon, noon + c.length}, c.n, time.UTC).Borders[:2]; got[0] != noon+c.want[0] || got[1] != noon+c.want[1] {
			t.Errorf("%d seconds, stored by %d, in %d buckets: the first is %v, want %v after noon", c.length, c.width, c.n, got, c.want)
		}
	}
}

func TestCutAlignsRangesToSteps(t *testing.T) {
	const berlin, saoPaulo, kolkata, apia = "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Apia"
	hours := []Point{{Start: unix(t, "2026-10-24T00:00:00Z"), Tier: Hours}}
	for _, c := range []struct {
		promise, zone, from, to string
		step                    int64
		met                     []Point
		used                    int64
		want                    []string
	}{
		{"the range is widened to whole ones", "UTC", "2026-11-21T10:10:00Z", "2026-11-21T10:40:01Z", 15 * Minute, nil, 15 * Minute,
			[]string{"2026-11-21T10:00:00Z", "2026-11-21T10:15:00Z", "2026-11-21T10:30:00Z", "2026-11-21T10:45:00Z"}},
		{"one that is finer than what is stored becomes its width", "UTC", "2026-10-24T01:30:00Z", "2026-10-24T02:30:00Z", 15 * Minute, hours, Hour,
			[]string{"2026-10-24T01:00:00Z", "2026-10-24T02:00:00Z", "2026-10-24T03:00:00Z"}},
		{"one that would split what is stored becomes the next whole number", "UTC", "2026-10-24T01:30:00Z", "2026-10-24T02:30:00Z", 90 * Minute, hours,
			2 * Hour, []string{"2026-10-24T00:00:00Z", "2026-10-24T02:00:00Z", "2026-10-24T04:00:00Z"}},
		{"days are of the zone, the long one too", berlin, "2026-10-24T12:00:00+02:00", "2026-10-26T12:00:00+01:00", Day, hours, Day,
			[]string{"2026-10-24T00:00:00+02:00", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00", "2026-10-27T00:00:00+01:00"}},
		{"the last day by UTC and the local days after it are three, though the range is shorter than a day", "Asia/Kolkata",
			"2010-02-12T20:54:27Z", "2010-02-13T20:26:44Z", Day, []Point{{Start: unix(t, "2010-02-12T00:00:00Z"), Tier: Days}}, Day,
			[]string{"2010-02-12T05:30:00+05:30", "2010-02-13T05:30:00+05:30", "2010-02-14T00:00:00+05:30", "2010-02-15T00:00:00+05:30"}},
		{"so are the days around a short one", berlin, "2026-03-28T23:45:00+01:00", "2026-03-30T00:15:00+02:00", Day, nil, Day,
			[]string{"2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00", "2026-03-31T00:00:00+02:00"}},
		{"weeks begin on Monday", berlin, "2026-10-24T12:00:00+02:00", "2026-10-27T12:00:00+01:00", Week, nil, Week,
			[]string{"2026-10-19T00:00:00+02:00", "2026-10-26T00:00:00+01:00", "2026-11-02T00:00:00+01:00"}},
		{"a day in São Paulo that began at one o'clock", saoPaulo, "2018-11-03T00:00:00-03:00", "2018-11-06T00:00:00-02:00", Day, nil, Day,
			[]string{"2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", "2018-11-06T00:00:00-02:00"}},
		{"a day in São Paulo whose last hour came twice", saoPaulo, "2019-02-16T00:00:00-02:00", "2019-02-18T00:00:00-03:00", Day, nil, Day,
			[]string{"2019-02-16T00:00:00-02:00", "2019-02-17T00:00:00-03:00", "2019-02-18T00:00:00-03:00"}},
		{"a date that Samoa left out", apia, "2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00", Day, nil, Day,
			[]string{"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"}},
		{"stored hours are not split by a midnight at half past", kolkata, "2026-11-20T00:00:00+05:30", "2026-11-22T00:00:00+05:30", Day,
			[]Point{{Start: unix(t, "2026-11-22T00:00:00Z"), Tier: Hours}}, Day,
			[]string{"2026-11-19T23:30:00+05:30", "2026-11-20T23:30:00+05:30", "2026-11-21T23:30:00+05:30"}},
		{"days where only UTC days are stored, local days after them", berlin, "2026-11-02T00:00:00+01:00", "2026-11-05T00:00:00+01:00", Day,
			[]Point{{Start: unix(t, "2026-11-02T00:00:00Z"), Tier: Days}}, Day,
			[]string{"2026-11-02T01:00:00+01:00", "2026-11-03T01:00:00+01:00", "2026-11-04T00:00:00+01:00", "2026-11-05T00:00:00+01:00"}},
	} {
		zone := zoneOf(t, c.zone)
		var m Extent
		m.Add(c.met)
		used := m.stepWidth(c.step)
		cut := m.cutByStep(Range{unix(t, c.from), unix(t, c.to)}, used, zone)
		if got := shown(cut.Borders, zone); used != c.used || !slices.Equal(got, c.want) {
			t.Errorf("%s: steps of %d have borders\n%q, want steps of %d with\n%q", c.promise, used, got, c.used, c.want)
		}
	}
}

func TestExactIsFalseForWrongSums(t *testing.T) {
	for _, c := range []struct {
		promise string
		s       Series
		exact   bool
	}{
		{"nothing", Series{}, true},
		{"all is stored", Series{Lifetime: 5, Points: []Point{{Sum: 2}, {Sum: 3}}}, true},
		{"some has expired", Series{Lifetime: 5, Expired: 3, Points: []Point{{Sum: 2}}}, true},
		{"the largest", Series{Lifetime: MaxTotal, Points: []Point{{Sum: MaxTotal}}}, true},
		{"one is missing", Series{Lifetime: 5, Points: []Point{{Sum: 4}}}, false},
		{"one too many", Series{Lifetime: 5, Points: []Point{{Sum: 6}}}, false},
		{"numbers that wrap around to the right one", Series{Lifetime: 5, Points: []Point{{Sum: 1 << 63}, {Sum: 1 << 63}, {Sum: 5}}}, false},
		{"what could be read adds up, and more cannot be read", Series{Lifetime: 5, Points: []Point{{Sum: 5}}, Err: io.ErrUnexpectedEOF}, false},
		{"an expiry that wraps around", Series{Lifetime: 5, Expired: 1<<64 - 1, Points: []Point{{Sum: 6}}}, false},
	} {
		if got := c.s.Exact(); got != c.exact {
			t.Errorf("%s: Exact is %v, want %v", c.promise, got, c.exact)
		}
	}
}

func TestTotalsHaveSamplesAtBucketBorders(t *testing.T) {
	const noon = 1_800_000_000 / Day * Day
	minutes := func(start int64, sum uint64) Point { return Point{Start: noon + start, Tier: Minutes, Sum: sum} }
	for _, c := range []struct {
		name     string
		lifetime uint64
		points   []Point
		now      int64
		want     []Sample
	}{
		{"nothing stored", 7, nil, noon, nil},
		{"a life begins with 0", 3, []Point{minutes(0, 3)}, noon + 600, []Sample{{noon, 0}, {noon + 60, 3}}},
		{"what is older is in it", 10, []Point{minutes(0, 3)}, noon + 600, []Sample{{noon, 7}, {noon + 60, 10}}},
		{"a border comes once", 5, []Point{minutes(0, 3), minutes(60, 2)}, noon + 600,
			[]Sample{{noon, 0}, {noon + 60, 3}, {noon + 120, 5}}},
		{"a gap has both ends", 5, []Point{minutes(0, 3), minutes(180, 2)}, noon + 600,
			[]Sample{{noon, 0}, {noon + 60, 3}, {noon + 180, 3}, {noon + 240, 5}}},
		{"a bucket that is not over ends now", 9, []Point{{Start: noon, Tier: Days, Sum: 9}}, noon + 7 + Hour,
			[]Sample{{noon, 0}, {noon + 7 + Hour, 9}}},
		{"one that has just begun ends a second later", 9, []Point{minutes(0, 9)}, noon, []Sample{{noon, 0}, {noon + 1, 9}}},
		{"so does one in the future", 9, []Point{minutes(0, 9)}, noon - Hour, []Sample{{noon, 0}, {noon + 1, 9}}},
		{"moments stay in order beside the future", 9, []Point{minutes(0, 4), minutes(60, 5)}, noon + 10,
			[]Sample{{noon, 0}, {noon + 10, 4}, {noon + 60, 4}, {noon + 61, 9}}},
		{"the first moment of time counts", 1, []Point{{Tier: Minutes, Sum: 1}}, noon, []Sample{{0, 0}, {60, 1}}},
		{"more stored than counted begins with 0", 2, []Point{minutes(0, 3)}, noon + 600, []Sample{{noon, 0}, {noon + 60, 3}}},
	} {
		s := Series{Lifetime: c.lifetime, Points: c.points}
		if got := s.AppendSamples(nil, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if got := (&Series{Lifetime: 1, Points: []Point{minutes(0, 1)}}).AppendSamples([]Sample{{1, 2}}, noon+60); len(got) != 3 || got[0] != (Sample{1, 2}) {
		t.Errorf("what was there is now %v: it is to be appended to", got)
	}
}

// Whatever was downsampled when, and wherever a reader begins: each sample is what the minutes before it add up to.
func TestTotalsAreExactAcrossTiers(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 16))
		keep := DefaultRetention()
		now := int64(1_790_000_000) + r.Int64N(10*Day)
		minutes := make(map[int64]uint64) // since 1970
		var ledger Ledger
		for range 20 {
			for range 1 + r.IntN(200) {
				at, hits := now/Minute-r.Int64N(1+r.Int64N(90*Day/Minute)), 1+r.Uint64N(1000)
				if err := ledger.Apply(&ledger, &Increment{Minute: at, Hits: hits}, &keep, now, new(ApplyResult)); err != nil {
					t.Fatal(err)
				}
				minutes[at] += hits
			}
			if r.IntN(2) == 0 {
				for c := range maps.Clone(ledger.Chunks) {
					if keep.Due(c, c.Start()) <= now {
						_ = ledger.Totals.Downsample(&ledger, c, &keep, now, new(DownsampleResult))
					}
				}
			}
			s := ledger.Series(ID{}, now-r.Int64N(100*Day), Always().To)
			samples := s.AppendSamples(nil, now)
			known, next, want := slices.Sorted(maps.Keys(minutes)), 0, uint64(0)
			last := Sample{At: -1}
			for _, got := range samples {
				for ; next < len(known) && known[next]*Minute < got.At; next++ {
					want += minutes[known[next]]
				}
				if got.Total != want {
					t.Fatalf("seed %d: at %d the series had counted %d, and the sample says %d", seed, got.At, want, got.Total)
				}
				if got.At <= last.At || got.Total < last.Total {
					t.Fatalf("seed %d: %v follows %v: moments rise, and totals never fall", seed, got, last)
				}
				last = got
			}
			if len(samples) > 2*len(s.Points) {
				t.Fatalf("seed %d: %d samples of %d points: two of each are enough", seed, len(samples), len(s.Points))
			}
			now += r.Int64N(5 * Day)
		}
	}
}
