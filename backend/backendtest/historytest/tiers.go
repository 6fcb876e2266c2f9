package historytest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

var tierCases = []promiseCase{
	{"AChunkMovesWhenAllOfItIsOldEnough", testDue},
	{"BucketsOfAnotherStoreMoveOn", testCoarse},
	{"WeeksFallIntoTwoYears", testWeeks},
	{"DaysAreDroppedOneByOneAndCounted", testRetention},
	{"AValuesSeriesGoesWithItsLastDay", testValueGoes},
	{"TheJobNeverRunsAheadOfTheStoresClock", testJobsClock},
}

const day = 24 * time.Hour

func testDue(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	at := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC) // a Wednesday
	b.setTime(at)
	b.count(history.Increment{ID: shop, Minute: at.Unix() / 60, Hits: 7})
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
			b.downsample()
			points := b.query(only(shop))[shop].Points
			if len(points) != 1 || points[0].Tier != step.tier || points[0].Sum != 7 || points[0].Peak != 7 {
				t.Fatalf("at %v the series is %+v, want 7 hits in one bucket of %v", step.now, points, step.tier)
			}
		}
		b.agree()
	}
}

// testCoarse counts in buckets of each tier, in a series of its own each, the newest first, and waits until all have
// expired.
func testCoarse(t *testing.T, open Open) {
	keep := history.DefaultRetention()
	keep.Ages = [history.Tiers]time.Duration{day, 3 * day, 6 * day, 12 * day}
	b := newBench(t, open, keep)
	for tier := range history.Tier(history.Tiers) {
		id := history.ID{Domain: "shop", Path: "of" + tier.String()}
		for n := range int64(3) {
			for _, peak := range []uint64{9, 10, 7} { // the second and third into a bucket that is there
				b.count(history.Increment{ID: id, Minute: floor(tier, b.minute()-n*1440) / 60, Hits: 20, Tier: tier, Peak: peak})
			}
		}
	}
	for range 40 {
		if did := b.downsample(); did.Chunks > 0 {
			b.agree()
		}
		b.wait(day)
	}
	for id, s := range b.query(Everything()) {
		if s.Lifetime != 180 || s.Expired != 180 {
			t.Errorf("of %s %d hits have expired of %d, want all 180", id.Path, s.Expired, s.Lifetime)
		}
	}
}

func testWeeks(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	monday := time.Date(2026, 12, 28, 0, 0, 0, 0, time.UTC)
	b.setTime(monday.Add(7 * day))
	for hour := range 7 * 24 {
		at := monday.Add(time.Duration(hour) * time.Hour)
		b.count(history.Increment{ID: shop, Minute: at.Unix() / 60, Hits: uint64(hour) + 1})
	}
	b.setTime(monday.Add(60 * day))
	b.downsample()
	b.agree()
	if points := b.query(only(shop))[shop].Points; len(points) != 7 || points[4].Start != monday.Add(4*day).Unix() {
		t.Errorf("a week over New Year became %+v, want its 7 days, 4 in 2026 and 3 in 2027", points)
	}
}

func testLate(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	begin := b.minute()
	for n := range int64(180) {
		b.count(history.Increment{ID: shop, Minute: begin - n, Hits: 10 + uint64(n)})
	}
	for _, age := range []time.Duration{2 * day, 6 * day, 9 * day, 35 * day, 80 * day, 500 * day} {
		b.setTime(start.Add(age))
		b.downsample()
		b.agree()
		b.count(history.Increment{ID: shop, Minute: begin - 3, Hits: 1000},
			history.Increment{ID: shop, Minute: begin - 400, Hits: 50},
			history.Increment{ID: shop, Minute: begin - 3*1440, Hits: 3},
			history.Increment{ID: shop, Minute: b.minute(), Hits: 1})
		b.agree() // late hits lie in the buckets of their time at once
		if did := b.downsample(); did.Series == 0 {
			t.Errorf("%v later, the job left late hits where they were", age)
		}
		b.agree()
	}
}

// testRetention has a job on each of ten days, then on every tenth.
func testRetention(t *testing.T, open Open) {
	keep := history.DefaultRetention()
	keep.Ages[history.Days] = 100 * day
	b := newBench(t, open, keep)
	for n := range 150 {
		b.count(history.Increment{ID: shop, Minute: b.minute() - int64(n)*1440, Hits: uint64(n) + 1})
	}
	for n := range 160 {
		if n < 10 || n%10 == 0 {
			b.downsample()
			b.agree()
		}
		b.wait(day)
	}
	if s := b.query(only(shop))[shop]; s.Lifetime != 150*151/2 || s.Expired == 0 || conserved(s) != nil {
		t.Errorf("at the end lifetime is %d, expired %d: the lifetime outlives the retention", s.Lifetime, s.Expired)
	}
	b.wait(200 * day)
	b.downsample()
	s, found := b.query(only(shop))[shop]
	if !found || s.Expired != s.Lifetime || len(s.Points) > 0 {
		t.Errorf("of a series of the past, %+v is left, want its lifetime, all of it expired", s)
	}
	b.count(history.Increment{ID: shop, Minute: b.minute(), Hits: 5},
		history.Increment{ID: shop, Minute: b.minute() - 1000*1440, Hits: 6})
	b.downsample()
	b.agree()
}

// testValueGoes has a value come, go with the retention, and come again. Jobs run two at a time.
func testValueGoes(t *testing.T, open Open) {
	keep := history.DefaultRetention()
	keep.Ages[history.Days] = 100 * day
	b := newBench(t, open, keep)
	bob, other := shop, shop
	bob.Value, other.Value = "user=bob", history.OtherValue
	for life := range uint64(3) {
		for n := range int64(3) {
			b.count(history.Increment{ID: bob, Minute: b.minute() - n*2000, Hits: life + 1},
				history.Increment{ID: other, Minute: b.minute() - n*2000, Hits: 1})
		}
		for _, wait := range []time.Duration{day, 60 * day, 50 * day, day} {
			b.wait(wait)
			var jobs sync.WaitGroup
			for range 2 {
				jobs.Go(func() {
					if _, err := b.store.Downsample(context.Background(), b.now()); err != nil {
						t.Errorf("Downsample, two at a time: %v", err)
					}
				})
			}
			jobs.Wait()
			b.naive.downsample(b.now().Unix())
			b.agree()
		}
		got := b.query(Everything())
		if _, found := got[bob]; found || got[other].Lifetime != 3*(life+1) {
			t.Errorf("after life %d the store has %+v; want the value's series gone, and the lifetime of all others", life, got)
		}
	}
}

func testJobsClock(t *testing.T, open Open) {
	b := newBench(t, open, history.Retention{})
	b.count(history.Increment{ID: shop, Minute: b.minute(), Hits: 1})
	b.wait(2 * day)
	if got := b.downsampleStore(b.now().AddDate(1, 0, 0)); got.Chunks != 1 {
		t.Errorf("a job whose clock is a year ahead moved %d chunks, want the minutes alone: it would have made a week of 5 "+
			"minutes into days", got.Chunks)
	}
	if got := b.downsampleStore(b.now().AddDate(-1, 0, 0)); got.Series != 0 {
		t.Errorf("a job whose clock is behind moved %d series, want none", got.Series)
	}
}
