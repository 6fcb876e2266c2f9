package history

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTotalsStandWhereBucketsBeginAndEnd(t *testing.T) {
	const noon = 1_800_000_000 / day * day
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
		{"a bucket that is not over ends now", 9, []Point{{Start: noon, Tier: Days, Sum: 9}}, noon + 7 + hour,
			[]Sample{{noon, 0}, {noon + 7 + hour, 9}}},
		{"one that has just begun ends a second later", 9, []Point{minutes(0, 9)}, noon, []Sample{{noon, 0}, {noon + 1, 9}}},
		{"so does one in the future", 9, []Point{minutes(0, 9)}, noon - hour, []Sample{{noon, 0}, {noon + 1, 9}}},
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

// Whatever was rolled when, and wherever a reader begins: each sample is what the minutes before it add up to.
func TestTotalsAreExactWhateverTheTiers(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 16))
		keep := DefaultKeep()
		now := int64(1_790_000_000) + r.Int64N(10*day)
		minutes := make(map[int64]uint64) // since 1970
		var ledger Ledger
		for range 20 {
			for range 1 + r.IntN(200) {
				at, hits := now/minute-r.Int64N(1+r.Int64N(90*day/minute)), 1+r.Uint64N(1000)
				if _, err := ledger.Count(&ledger, at, hits); err != nil {
					t.Fatal(err)
				}
				minutes[at] += hits
			}
			if r.IntN(2) == 0 {
				ledger.Roll(&keep, now)
			}
			s := ledger.Series(ID{}, now-r.Int64N(100*day), Always().To)
			samples := s.AppendSamples(nil, now)
			known, next, want := slices.Sorted(maps.Keys(minutes)), 0, uint64(0)
			last := Sample{At: -1}
			for _, got := range samples {
				for ; next < len(known) && known[next]*minute < got.At; next++ {
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
			now += r.Int64N(5 * day)
		}
	}
}
