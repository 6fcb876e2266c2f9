package history

import (
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

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

func TestMomentsAreReadAsPeopleWriteThem(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 33, 500, time.UTC)
	for _, c := range []struct {
		text string
		want int64 // -1 for an error
	}{
		{"0", 0}, {"1795262400", 1795262400}, {"253402300800", 253402300800},
		{"1795262400000", -1}, {"+5", -1}, {"1.5", -1}, {"-5", -1},
		{"2026-11-21T12:00:00Z", 1795262400}, {"2026-11-21T13:00:00+01:00", 1795262400}, {"2026-11-21", -1},
		{"1969-12-31T23:59:59Z", -1},
		{"-90m", now.Unix() - 5400}, {"-12h", now.Unix() - 43200}, {"-30d", now.Unix() - 2592000}, {"-2w", now.Unix() - 1209600},
		{"-0m", now.Unix()}, {"12h", -1}, {"-h", -1}, {"-", -1}, {"--1h", -1}, {"-1.5h", -1}, {"-3000w", -1}, {"-9999999999w", -1},
		{"", -1}, {"yesterday", -1},
	} {
		got, err := ParseMoment(c.text, now)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("ParseMoment(%q) = %d (%v), want %d", c.text, got, err, c.want)
		}
	}
}

func TestCutsBeginWherePeopleExpect(t *testing.T) {
	const berlin, saoPaulo, kolkata, apia = "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Apia"
	for _, c := range []struct {
		promise, zone, from, to string
		n                       int
		met                     []Point // ends are what counts
		want                    []string
	}{
		{"minutes, widened to whole ones", "UTC", "2026-11-21T11:58:30Z", "2026-11-21T12:00:33Z", 10, nil,
			[]string{"2026-11-21T11:58:00Z", "2026-11-21T11:59:00Z", "2026-11-21T12:00:00Z", "2026-11-21T12:01:00Z"}},
		{"round widths begin on the hour", "UTC", "2026-11-21T10:10:00Z", "2026-11-21T11:50:00Z", 4, nil,
			[]string{"2026-11-21T10:00:00Z", "2026-11-21T10:30:00Z", "2026-11-21T11:00:00Z", "2026-11-21T11:30:00Z", "2026-11-21T12:00:00Z"}},
		{"one bucket is the range itself", "UTC", "2026-11-21T11:59:00Z", "2026-11-21T12:01:00Z", 1, nil,
			[]string{"2026-11-21T11:59:00Z", "2026-11-21T12:01:00Z"}},
		{"a bucket is at least as wide as what is stored", "UTC", "2026-11-21T11:10:00Z", "2026-11-21T12:10:00Z", 100,
			[]Point{{Start: unix(t, "2026-11-21T11:00:00Z"), Tier: Hours}},
			[]string{"2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"}},
		{"weeks begin on Monday", "UTC", "2026-11-04T00:00:00Z", "2026-11-21T00:00:00Z", 3, nil,
			[]string{"2026-11-02T00:00:00Z", "2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"}},
		{"a spring day in Berlin has 23 hours", berlin, "2026-03-28T00:00:00+01:00", "2026-03-31T00:00:00+02:00", 3, nil,
			[]string{"2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00", "2026-03-31T00:00:00+02:00"}},
		{"an autumn day in Berlin has 25 hours, and is met from any of them", berlin, "2026-10-25T23:30:00+01:00", "2026-10-26T01:00:00+01:00", 5,
			[]Point{{Start: unix(t, "2026-10-25T00:00:00Z"), Tier: Hours}},
			[]string{"2026-10-25T23:00:00+01:00", "2026-10-26T00:00:00+01:00", "2026-10-26T01:00:00+01:00"}},
		{"a day in São Paulo that began at one o'clock", saoPaulo, "2018-11-03T00:00:00-03:00", "2018-11-06T00:00:00-02:00", 3, nil,
			[]string{"2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", "2018-11-06T00:00:00-02:00"}},
		{"a day in São Paulo whose last hour came twice", saoPaulo, "2019-02-16T00:00:00-02:00", "2019-02-18T00:00:00-03:00", 2, nil,
			[]string{"2019-02-16T00:00:00-02:00", "2019-02-17T00:00:00-03:00", "2019-02-18T00:00:00-03:00"}},
		{"a date that Samoa left out", apia, "2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00", 3, nil,
			[]string{"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"}},
		{"stored hours are not split by a midnight at half past", kolkata, "2026-11-20T00:00:00+05:30", "2026-11-22T00:00:00+05:30", 3,
			[]Point{{Start: unix(t, "2026-11-22T00:00:00Z"), Tier: Hours}},
			[]string{"2026-11-19T23:30:00+05:30", "2026-11-20T23:30:00+05:30", "2026-11-21T23:30:00+05:30", "2026-11-23T00:00:00+05:30"}},
		{"days where only UTC days are stored, local days after them", berlin, "2026-11-02T00:00:00+01:00", "2026-11-05T00:00:00+01:00", 4,
			[]Point{{Start: unix(t, "2026-11-02T00:00:00Z"), Tier: Days}},
			[]string{"2026-11-01T01:00:00+01:00", "2026-11-02T01:00:00+01:00", "2026-11-03T01:00:00+01:00", "2026-11-04T00:00:00+01:00",
				"2026-11-05T00:00:00+01:00"}},
	} {
		t.Run(c.promise, func(t *testing.T) {
			zone := zoneOf(t, c.zone)
			var m Met
			m.Add(c.met)
			cut := m.Cut(Range{unix(t, c.from), unix(t, c.to)}, c.n, zone)
			if got := shown(cut.Borders, zone); !slices.Equal(got, c.want) {
				t.Errorf("borders are\n%q, want\n%q", got, c.want)
			}
		})
	}
}

// randomPoints are points as a store may hold them: those of each tier older than those of the next finer one, with
// late ones between them, none of which overlap.
func randomPoints(r *rand.Rand, from, to int64) []Point {
	var points []Point
	at := floorDiv(from, day) * day
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
func gather(series [][]Point, cut func(*Met) Cut) (Cut, [][]Point) {
	var met Met
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
		if again := cut(&met); again.Equal(&c) {
			return c, seen
		}
	}
}

func TestNoCutSplitsOrLosesAHit(t *testing.T) {
	var zones []*time.Location
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Norfolk",
		"Pacific/Chatham", "Pacific/Apia", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		zones = append(zones, zoneOf(t, name))
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		start := unix(t, "2010-01-01T00:00:00Z") + r.Int64N(8*365*day)
		length := minute + r.Int64N([]int64{hour, day, 10 * day, 60 * day}[r.IntN(4)])
		asked := Range{start, start + length}
		var series [][]Point
		for range 1 + r.IntN(3) {
			series = append(series, randomPoints(r, asked.From-2*day, asked.To+2*day))
		}
		n, zone := 1+r.IntN([]int{3, 40, 2000}[r.IntN(3)]), zones[r.IntN(len(zones))]
		cut, seen := gather(series, func(m *Met) Cut { return m.Cut(asked, n, zone) })
		used := cut.Range()
		if used.From > asked.From || used.To < asked.To || len(cut.Borders)-1 > n || !slices.IsSorted(cut.Borders) {
			t.Fatalf("seed %d: %v cut into %d in %v has %d buckets over %v", seed, asked, n, zone, len(cut.Borders)-1, used)
		}
		for _, points := range seen {
			var want uint64
			for _, p := range points {
				i, _ := slices.BinarySearch(cut.Borders, p.Start+1)
				if i == 0 || p.End() > cut.Borders[i] {
					t.Fatalf("seed %d: %v cut into %d in %v splits the bucket %+v", seed, asked, n, zone, p)
				}
				want += p.Sum
			}
			var got uint64
			for i, b := range cut.Fill(points) {
				got += b.Sum
				if b.Start != cut.Borders[i] || b.End <= b.Start || b.Peak > b.Sum {
					t.Fatalf("seed %d: bucket %+v of %v makes no sense", seed, b, cut.Borders)
				}
			}
			if got != want {
				t.Fatalf("seed %d: the buckets of %v hold %d, but %d are stored there: hits must neither appear nor vanish",
					seed, used, got, want)
			}
		}
	}
}

func TestPeaksSurviveEveryCut(t *testing.T) {
	points := []Point{{0, Minutes, 5, 5}, {60, Minutes, 7, 7}, {300, FiveMinutes, 9, 4}}
	var m Met
	m.Add(points)
	c := m.Cut(Range{0, 600}, 1, time.UTC)
	if got, want := c.Fill(points), (Bucket{0, 600, 21, 7, FiveMinutes}); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v: spikes must not vanish in the average", got, want)
	}
}

func TestASeriesThatDoesNotAddUpIsNeverTakenForExact(t *testing.T) {
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
