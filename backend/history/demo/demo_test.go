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
	if len(tiers) != history.Tiers || len(ends) != len(seriesNames) {
		t.Errorf("there are %d tiers and %d series, want %d and %d", len(tiers), len(ends), history.Tiers, len(seriesNames))
	}
}

// What is told of the demonstration can be seen in it.
func TestWhatHappenedIsSeen(t *testing.T) {
	t.Parallel()
	all := makeUp(t, until, 400)
	sum := func(of int, from, to int64) (n uint64) { // seconds before the end
		for _, m := range all {
			if at := m.bucket.Start - until.Unix(); m.id == seriesNames[of] && at >= -from && at < -to {
				n += m.bucket.Sum
			}
		}
		return n
	}
	for _, c := range []struct {
		what        string
		more, fewer uint64
	}{
		{"an attack on paying", sum(payOver, 14*day, 11*day), 20 * sum(payOver, 18*day, 15*day)},
		{"growth", sum(userWithin, 30*day, 0), sum(userWithin, 395*day, 365*day)},
		{"a quarter of an hour without a store", sum(userDegraded, 4*day, 2*day), 300},
		{"a rule on trial", sum(addressShadow, 30*day, 0), 10_000},
		{"acme's week", sum(acmeOver, 5*day, 0), 10 * sum(acmeOver, 400*day, 7*day)},
	} {
		if c.more <= c.fewer {
			t.Errorf("%s is not seen: %d hits, want more than %d", c.what, c.more, c.fewer)
		}
	}
	if over, shadow := sum(addressOver, 400*day, 0), sum(addressShadow, 400*day, 0); over != shadow {
		t.Errorf("a rule on trial has %d over and %d of these let through, want all", over, shadow)
	}
	if degraded := sum(userDegraded, 400*day, 0) - sum(userDegraded, 4*day, 2*day); degraded != 0 {
		t.Errorf("%d hits are degraded outside the quarter of an hour, want none", degraded)
	}
}
