package demo

import (
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

var until = time.Date(2026, 11, 21, 12, 34, 56, 0, time.UTC)

type made struct {
	id     history.ID
	bucket history.Point
}

func makeUp(t *testing.T, until time.Time, days int) (all []made) {
	t.Helper()
	since, err := Since(until, days)
	if err != nil {
		t.Fatal(err)
	}
	err = Buckets(since, until, history.DefaultRetention(), func(id history.ID, p history.Point) error {
		all = append(all, made{id, p})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDemoRepeatsHitsForTheSameEnd(t *testing.T) {
	t.Parallel()
	if first, second := makeUp(t, until, 60), makeUp(t, until, 60); !slices.Equal(first, second) {
		t.Errorf("%d buckets, then %d others", len(first), len(second))
	}
}

func TestDemoBucketsAreValidInAStore(t *testing.T) {
	t.Parallel()
	keep := history.DefaultRetention()
	ends, tiers := make(map[history.ID]int64), make(map[history.Tier]bool)
	for _, m := range makeUp(t, until, 400) {
		p := m.bucket
		tiers[p.Tier] = true
		switch {
		case p.Start%p.Tier.Width() != 0 || p.Start < ends[m.id] || p.Start >= until.Unix():
			t.Fatalf("%+v has %+v, after a bucket that ends at %d", m.id, p, ends[m.id])
		case p.Peak == 0 || p.Peak > p.Sum || (p.Sum-1)/p.Peak >= uint64(p.Tier.Width()/60):
			t.Fatalf("%+v has %+v: its minutes cannot be", m.id, p)
		case p.Tier < history.Days && keep.Due(history.ChunkOf(p.Tier, p.Start), 0) <= until.Unix():
			t.Fatalf("%+v has %+v, which a store would have moved on", m.id, p)
		}
		ends[m.id] = p.End()
	}
	if len(tiers) != history.Tiers || len(ends) != 27 {
		t.Errorf("there are %d tiers and %d series, want %d and 27", len(tiers), len(ends), history.Tiers)
	}
}

// What was let pass is what the limits of Config let pass: whoever looks at the demo compares the two.
func TestDemoAdmitsNoMoreThanTheLimits(t *testing.T) {
	t.Parallel()
	most := map[string]uint64{"route=search": 20 * 60, "route=report": 20, "tenant": 600}
	hours, refused := make(map[history.ID]map[int64]uint64), make(map[string]bool)
	for _, m := range makeUp(t, until, 30) {
		if name := m.id.Path; m.id.Outcome == history.Within && m.bucket.Tier < history.Days {
			if hours[m.id] == nil {
				hours[m.id] = make(map[int64]uint64)
			}
			hours[m.id][m.bucket.Start/history.Hour] += m.bucket.Sum
			if got := hours[m.id][m.bucket.Start/history.Hour]; most[name] > 0 && got > most[name] {
				t.Fatalf("%+v let %d pass in an hour, and its limit is %d", m.id, got, most[name])
			}
		} else if m.id.Outcome == history.Over {
			refused[name] = true
		}
	}
	for name := range most {
		if !refused[name] {
			t.Errorf("nothing of %s is refused: this proves nothing", name)
		}
	}
}
