package historytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

var tierCases = []promiseCase{
	{"AChunkMovesWhenAllOfItIsOldEnough", testDue},
	{"WeeksFallIntoTwoYears", testWeeks},
	{"ADryRunSaysWhatTheJobWouldDo", testDryRun},
	{"TheJobNeverRunsAheadOfTheStoresClock", testJobsClock},
	{"AFullSeriesIsRolledEarly", testEarly},
	{"TheHourBeingWrittenIsRolledLast", testEarlyOrder},
	{"TheJobSaysHowFarItIs", testProgress},
}

const day = 24 * time.Hour

// testMoves lets months go by with a job now and then, and compares after each.
func testMoves(t *testing.T, open Open, jobEvery int) {
	b := newBench(t, open, history.Keep{})
	r := rand.New(rand.NewPCG(1, 1))
	series := []history.ID{shop, sibling(shop), {Domain: "other", Path: "p", Value: "v", Outcome: history.Near}}
	for range 300 {
		var increments []history.Increment
		for _, id := range series {
			burst := b.minute() - r.Int64N(30)
			for n := range r.Int64N(12) {
				increments = append(increments, history.Increment{ID: id, Minute: burst - n, Hits: 1 + r.Uint64N(1000)})
			}
		}
		b.land(increments...)
		b.wait(time.Duration(r.Int64N(int64(20 * time.Hour))))
		if r.IntN(3*jobEvery) == 0 {
			b.roll()
			b.agree()
			b.agreeOn(history.Query{From: b.now().Unix() - 40*86400, To: b.now().Unix() - 3600})
		}
	}
	b.wait(12 * 365 * day)
	b.roll()
	b.agree()
}

func testDue(t *testing.T, open Open) {
	b := newBench(t, open, history.Keep{})
	at := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC) // a Wednesday
	b.setTime(at)
	b.land(history.Increment{ID: shop, Minute: at.Unix() / 60, Hits: 7})
	for _, c := range []struct {
		due time.Time
		to  history.Tier
	}{
		{time.Date(2026, 3, 5, 6, 0, 0, 0, time.UTC), history.FiveMinutes},
		{time.Date(2026, 3, 12, 0, 0, 0, 0, time.UTC), history.Hours},
		{time.Date(2026, 4, 8, 0, 0, 0, 0, time.UTC), history.Days}, // its week ends on Monday, the 9th of March
	} {
		for _, step := range []struct {
			now  time.Time
			tier history.Tier
		}{{c.due.Add(-time.Nanosecond), c.to - 1}, {c.due, c.to}} {
			b.setTime(step.now)
			b.roll()
			points := b.query(only(shop))[shop].Points
			if len(points) != 1 || points[0].Tier != step.tier || points[0].Sum != 7 || points[0].Peak != 7 {
				t.Fatalf("at %v the series is %+v, want 7 hits in one bucket of %v", step.now, points, step.tier)
			}
		}
		b.agree()
	}
}

func testWeeks(t *testing.T, open Open) {
	b := newBench(t, open, history.Keep{})
	monday := time.Date(2026, 12, 28, 0, 0, 0, 0, time.UTC)
	b.setTime(monday.Add(7 * day))
	for hour := range 7 * 24 {
		at := monday.Add(time.Duration(hour) * time.Hour)
		b.land(history.Increment{ID: shop, Minute: at.Unix() / 60, Hits: uint64(hour) + 1})
	}
	b.setTime(monday.Add(60 * day))
	b.roll()
	b.agree()
	points := b.query(only(shop))[shop].Points
	if len(points) != 7 || points[3].Start != time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC).Unix() ||
		points[4].Start != time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).Unix() {
		t.Errorf("a week over New Year became %+v, want its 7 days, 4 in 2026 and 3 in 2027", points)
	}
}

func testLate(t *testing.T, open Open) {
	b := newBench(t, open, history.Keep{})
	begin := b.minute()
	for n := range int64(180) {
		b.land(history.Increment{ID: shop, Minute: begin - n, Hits: 10 + uint64(n)})
	}
	for _, age := range []time.Duration{2 * day, 6 * day, 9 * day, 35 * day, 80 * day, 500 * day} {
		b.setTime(start.Add(age))
		b.roll()
		b.agree()
		b.land(history.Increment{ID: shop, Minute: begin - 3, Hits: 1000},
			history.Increment{ID: shop, Minute: begin - 400, Hits: 50},
			history.Increment{ID: shop, Minute: begin - 3*1440, Hits: 3},
			history.Increment{ID: shop, Minute: b.minute(), Hits: 1})
		b.agree() // late hits lie in the buckets of their time at once
		if rolled := b.roll(); rolled.Series == 0 {
			t.Errorf("%v later, the job left late hits where they were", age)
		}
		b.agree()
	}
}

// testRetention has a job each day. The first ten are never left out.
func testRetention(t *testing.T, open Open, jobEvery int) {
	keep := history.DefaultKeep()
	keep.Ages[history.Days] = 100 * day
	b := newBench(t, open, keep)
	for n := range 150 {
		b.land(history.Increment{ID: shop, Minute: b.minute() - int64(n)*1440, Hits: uint64(n) + 1})
	}
	for n := range 160 {
		if n < 10 || n%jobEvery == 0 {
			b.roll()
			b.agree()
		}
		b.wait(day)
	}
	if s := b.query(only(shop))[shop]; s.Lifetime != 150*151/2 || s.Expired == 0 || s.Expired+sumOf(s.Points) != s.Lifetime {
		t.Errorf("at the end lifetime is %d, expired %d: the lifetime outlives the retention", s.Lifetime, s.Expired)
	}
	b.wait(200 * day)
	b.roll()
	s, found := b.query(only(shop))[shop]
	if !found || s.Expired != s.Lifetime || len(s.Points) > 0 {
		t.Errorf("of a series of the past, %+v is left, want its lifetime, all of it expired", s)
	}
	b.land(history.Increment{ID: shop, Minute: b.minute(), Hits: 5},
		history.Increment{ID: shop, Minute: b.minute() - 1000*1440, Hits: 6})
	b.roll()
	b.agree()
}

func sumOf(points []history.Point) uint64 {
	var sum uint64
	for _, p := range points {
		sum += p.Sum
	}
	return sum
}

func testDryRun(t *testing.T, open Open) {
	b := newBench(t, open, history.Keep{})
	r := rand.New(rand.NewPCG(2, 2))
	for _, age := range []time.Duration{0, day, 8 * day, 40 * day, 4000 * day} {
		b.setTime(start.Add(age))
		for n := range 40 {
			id := history.ID{Domain: "shop", Path: fmt.Sprint(n % 10)}
			b.land(history.Increment{ID: id, Minute: b.minute() - r.Int64N(90*1440), Hits: 1 + r.Uint64N(9)})
		}
		would := b.rollOnly(history.Job{Now: b.now(), DryRun: true})
		b.agree()
		if did := b.roll(); did != would {
			t.Fatalf("after %v a dry run says\n%+v, and the job did\n%+v", age, would, did)
		}
		b.agree()
	}
}

func testJobsClock(t *testing.T, open Open) {
	b := newBench(t, open, history.Keep{})
	b.land(history.Increment{ID: shop, Minute: b.minute(), Hits: 1})
	b.wait(2 * day)
	for _, dry := range []bool{true, false} {
		got := b.rollOnly(history.Job{Now: b.now().AddDate(1, 0, 0), DryRun: dry})
		if got.Chunks != [history.Tiers]uint64{1} {
			t.Errorf("a job whose clock is a year ahead (dry run: %v) moved %v, want the minutes alone: it would have made "+
				"a week of 5 minutes into days", dry, got.Chunks)
		}
	}
	early := b.rollOnly(history.Job{Now: b.now().AddDate(-1, 0, 0)})
	if early.Series != 0 {
		t.Errorf("a job whose clock is behind moved %d series, want none", early.Series)
	}
}

// finer returns how many points finer than a day a series has, for a reader.
func finer(s history.Series) int {
	n := 0
	for _, p := range s.Points {
		if p.Tier < history.Days {
			n++
		}
	}
	return n
}

func testEarly(t *testing.T, open Open) {
	keep := history.DefaultKeep()
	keep.MaxPoints = 100
	b := newBench(t, open, keep)
	quiet := sibling(shop)
	b.land(history.Increment{ID: quiet, Minute: b.minute(), Hits: 1})
	before := b.query(only(quiet))[quiet].Points
	for n := range 40 * 60 {
		b.wait(time.Minute)
		b.land(history.Increment{ID: shop, Minute: b.minute(), Hits: uint64(n%50) + 1})
		if n%7 != 0 && n < 39*60 {
			continue
		}
		b.naive.exact(t, b.query(only(shop))[shop], b.minute(), keep)
	}
	if after := b.query(only(quiet))[quiet].Points; !slices.Equal(before, after) {
		t.Errorf("a series with one point became %+v because another was full", after)
	}
}

// exact compares a series that may have been rolled early with the oracle, bucket by bucket.
func (n *naive) exact(t *testing.T, got history.Series, now int64, keep history.Keep) {
	t.Helper()
	if err := conserved(got); err != nil {
		t.Fatal(err)
	}
	want := n.series[got.ID]
	if got.Lifetime != want.lifetime {
		t.Fatalf("%v has %d hits, want %d", short(got.ID), got.Lifetime, want.lifetime)
	}
	sums := want.sums(got.Points)
	for i, p := range got.Points {
		if p.Sum != sums[i] {
			t.Fatalf("%v: the %s from %d has %d hits, want %d", short(got.ID), p.Tier, p.Start, p.Sum, sums[i])
		}
		if keep.MaxPoints >= 60 && p.Start/3600 == now/60 && p.Tier > history.Minutes && p.Tier < history.Days {
			t.Fatalf("%v: a bucket of %s from %d in the hour being written: it is rolled last",
				short(got.ID), p.Tier, p.Start)
		}
	}
	if points := finer(got); points > keep.MaxPoints {
		t.Fatalf("%v has %d points finer than a day, at most %d are allowed: without a job it would grow forever",
			short(got.ID), points, keep.MaxPoints)
	}
}

func testEarlyOrder(t *testing.T, open Open) {
	keep := history.DefaultKeep()
	keep.MaxPoints = 8
	b := newBench(t, open, keep)
	hour := b.now().Truncate(time.Hour)
	at := func(hours, minutes int) int64 {
		return hour.Add(time.Duration(hours)*time.Hour+time.Duration(minutes)*time.Minute).Unix() / 60
	}
	for _, minute := range []int64{at(-2, 0), at(-2, 1), at(-2, 2), at(-1, 0), at(-1, 1), at(-1, 2), at(0, 0), at(0, 1)} {
		b.land(history.Increment{ID: shop, Minute: minute, Hits: 1})
	}
	tiers := func() (found []history.Tier) {
		for _, p := range b.query(only(shop))[shop].Points {
			found = append(found, p.Tier)
		}
		return found
	}
	const m, f = history.Minutes, history.FiveMinutes
	if got, want := tiers(), []history.Tier{m, m, m, m, m, m, m, m}; !slices.Equal(got, want) {
		t.Fatalf("with 8 points, of 8 allowed, the series is %v, want %v", got, want)
	}
	b.land(history.Increment{ID: shop, Minute: at(0, 2), Hits: 1})
	if got, want := tiers(), []history.Tier{f, m, m, m, m, m, m}; !slices.Equal(got, want) {
		t.Fatalf("with 9 points, of 8 allowed, the series becomes %v, want %v: the oldest of the finest go first, and "+
			"no more than needed", got, want)
	}
}

func testProgress(t *testing.T, open Open) {
	b := newBench(t, open, history.Keep{})
	for n := range 200 {
		b.land(history.Increment{ID: history.ID{Path: fmt.Sprint(n)}, Minute: b.minute(), Hits: 1})
	}
	b.wait(2 * day)
	var last history.Rolled
	did := b.rollOnly(history.Job{Now: b.now(), Progress: func(r history.Rolled) {
		if r.Series < last.Series || r.Partitions < last.Partitions || r.Chunks[0] < last.Chunks[0] {
			t.Errorf("progress went back, from %+v to %+v", last, r)
		}
		last = r
	}})
	if did.Partitions != history.Partitions || did.Chunks[0] != 200 {
		t.Errorf("the job did %+v, want all %d partitions and 200 chunks", did, history.Partitions)
	}
	if last == (history.Rolled{}) {
		t.Error("the job never said how far it is: on a terminal it looks as if it hung")
	}
}
