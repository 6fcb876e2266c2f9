package demo

import (
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
	err := Buckets(until, days, history.DefaultKeep(), func(id history.ID, p history.Point) error {
		all = append(all, made{id, p})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheSameEndMakesTheSameHits(t *testing.T) {
	t.Parallel()
	first, second := makeUp(t, until, 60), makeUp(t, until, 60)
	if len(first) != len(second) {
		t.Fatalf("%d buckets, then %d", len(first), len(second))
	}
	for i := range first {
		if first[i] != second[i] {
			t.Fatalf("bucket %d is %+v, then %+v", i, first[i], second[i])
		}
	}
}

func TestBucketsAreAsAStoreWouldHoldThem(t *testing.T) {
	t.Parallel()
	keep := history.DefaultKeep()
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
	if len(tiers) != history.Tiers || len(ends) != 24 {
		t.Errorf("there are %d tiers and %d series, want %d and 24", len(tiers), len(ends), history.Tiers)
	}
}
