package historytest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// walker takes random steps on a store and its oracle.
type walker struct {
	*bench
	r      *rand.Rand
	series []history.ID
}

// roundSteps is how many steps a walk takes on one store.
const roundSteps = 1000

func newWalker(t *testing.T, open Open, keep history.Retention, r *rand.Rand) *walker {
	w := &walker{bench: newBench(t, open, keep), r: r}
	for n := range 1 + r.IntN(6) {
		w.series = append(w.series, history.ID{Domain: fmt.Sprint("d", r.IntN(2)), Path: fmt.Sprint("p", n),
			Outcome: history.Outcome(r.IntN(history.Outcomes)), Value: oddNames[r.IntN(6)]})
	}
	w.setTime(start.Add(-time.Duration(r.Int64N(int64(20 * 365 * day)))))
	return w
}

// randomKeep draws ages from an hour to years.
func randomKeep(r *rand.Rand) history.Retention {
	keep := history.DefaultRetention()
	if r.IntN(2) == 0 {
		age := time.Hour
		for t := range history.Tiers {
			age += time.Duration(r.Int64N(int64(age)*4)) / time.Second * time.Second
			keep.Ages[t] = age
		}
	}
	keep.MaxPoints = 1 << 30
	return keep
}

// rounds walks on one store after the other, until all steps have been taken.
func rounds(t *testing.T, steps int, seed, stream uint64, walk func(t *testing.T, r *rand.Rand, steps int)) {
	r := rand.New(rand.NewPCG(seed, stream))
	for round := 0; steps > 0; round++ {
		t.Run(fmt.Sprint(round), func(t *testing.T) { walk(t, r, min(steps, roundSteps)) })
		steps -= roundSteps
		if t.Failed() {
			t.Fatalf("the walk of seed %d went astray in round %d", seed, round)
		}
	}
}

// testWalk compares every bucket, peaks too, after each job.
func testWalk(t *testing.T, open Open, steps int, seed uint64) {
	rounds(t, steps, seed, 0, func(t *testing.T, r *rand.Rand, steps int) {
		w := newWalker(t, open, randomKeep(r), r)
		for range steps {
			switch r.IntN(20) {
			case 0:
				w.downsample()
				w.agree()
			case 1:
				w.agreeOn(w.randomQuery())
			case 2, 3:
				w.wait(w.randomWait())
			default:
				w.count(w.randomIncrements(w.series)...)
			}
		}
		w.downsample()
		w.agree()
	})
}

// testEarlyWalk lets series run full, with a job now and then.
func testEarlyWalk(t *testing.T, open Open, steps int, seed uint64) {
	rounds(t, steps, seed, 1, func(t *testing.T, r *rand.Rand, steps int) {
		keep := randomKeep(r)
		keep.Ages[history.Days] = 100 * 365 * day // the oracle does not know which days an early roll makes
		keep.MaxPoints = 1 + r.IntN(120)
		w := newWalker(t, open, keep, r)
		for range steps {
			switch r.IntN(200) {
			case 0:
				w.downsampleStore(w.now())
			case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
				w.wait(w.randomWait() / 10)
			default:
				id := w.series[r.IntN(len(w.series))]
				w.count(w.randomIncrements([]history.ID{id})...)
				w.naive.exact(t, w.query(only(id))[id], w.minute(), keep)
			}
		}
	})
}

// randomIncrements returns increments mostly of the present, some late and a few ahead of the clock. None is there
// twice.
func (w *walker) randomIncrements(series []history.ID) []history.Increment {
	used := make(map[history.Increment]bool)
	var out []history.Increment
	for range 1 + w.r.IntN(8) {
		at := history.Increment{ID: series[w.r.IntN(len(series))], Minute: w.minute() - w.r.Int64N(3)}
		switch w.r.IntN(12) {
		case 0:
			at.Minute -= w.r.Int64N(1440)
		case 1:
			at.Minute -= w.r.Int64N(60 * 1440)
		case 2:
			at.Minute -= w.r.Int64N(1000 * 1440)
		case 3:
			at.Minute += w.r.Int64N(100)
		case 4: // of another store
			at.Tier = history.Tier(w.r.IntN(history.Tiers))
			at.Minute = floor(at.Tier, at.Minute-60-w.r.Int64N(100*1440)) / 60
		}
		if used[at] {
			continue
		}
		used[at] = true
		if at.Hits = 1 + w.r.Uint64N(20); w.r.IntN(50) == 0 {
			at.Hits = 1 << w.r.IntN(40)
		}
		if at.Tier > history.Minutes {
			at.Peak = 1 + w.r.Uint64N(at.Hits)
		}
		out = append(out, at)
	}
	return out
}

// randomWait returns minutes as a rule, hours and days now and then, and seldom a year.
func (w *walker) randomWait() time.Duration {
	longest := 20 * time.Minute
	switch n := w.r.IntN(100); {
	case n < 1:
		longest = 800 * day
	case n < 5:
		longest = 30 * day
	case n < 15:
		longest = 2 * day
	case n < 40:
		longest = 3 * time.Hour
	}
	return time.Duration(w.r.Int64N(int64(longest)))
}

// randomQuery asks for some series and a range somewhere in the last years.
func (w *walker) randomQuery() history.Query {
	q := Everything()
	if w.r.IntN(2) == 0 {
		q = only(w.series[w.r.IntN(len(w.series))])
	}
	if w.r.IntN(4) > 0 {
		spans := []int64{60, 3600, 86400, 40 * 86400, 900 * 86400}
		q.To = w.now().Unix() - w.r.Int64N(spans[w.r.IntN(len(spans))])
		q.From = q.To - w.r.Int64N(spans[w.r.IntN(len(spans))])
	}
	return q
}

// exact compares a series that may have been downsampled early with the oracle, bucket by bucket.
func (n *naive) exact(t *testing.T, got history.Series, now int64, keep history.Retention) {
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
			t.Fatalf("%v: a bucket of %s from %d in the hour being written: it is downsampled last",
				short(got.ID), p.Tier, p.Start)
		}
	}
	points := 0
	for _, p := range got.Points {
		if p.Tier < history.Days {
			points++
		}
	}
	if points > keep.MaxPoints {
		t.Fatalf("%v has %d points finer than a day, at most %d are allowed: without a job it would grow forever",
			short(got.ID), points, keep.MaxPoints)
	}
}
