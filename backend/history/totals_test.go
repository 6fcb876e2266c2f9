package history

import (
	"slices"
	"testing"
	"time"
)

func TestEarlyChoosesTheChunkDueFirst(t *testing.T) {
	keep := DefaultRetention()
	now := time.Date(2026, 11, 21, 12, 30, 0, 0, time.UTC)
	chunk := func(tier Tier, ago time.Duration) Chunk { return ChunkOf(tier, now.Add(-ago).Unix()) }
	const h, d = time.Hour, 24 * time.Hour
	for _, c := range []struct {
		promise string
		held    []Chunk
		want    Chunk
	}{
		{"the oldest of a tier",
			[]Chunk{chunk(Minutes, 2*h), chunk(Minutes, 5*h), chunk(Minutes, 3*h)}, chunk(Minutes, 5*h)},
		{"minutes before 5 minutes of the same time", []Chunk{chunk(FiveMinutes, 0), chunk(Minutes, h)}, chunk(Minutes, h)},
		{"5 minutes of last week before this morning's minutes",
			[]Chunk{chunk(Minutes, h), chunk(FiveMinutes, 8*d)}, chunk(FiveMinutes, 8*d)},
		{"late minutes before all", []Chunk{chunk(Hours, 40*d), chunk(Minutes, 100*d)}, chunk(Minutes, 100*d)},
		{"the hour being written last", []Chunk{chunk(Minutes, 0), chunk(Hours, 0)}, chunk(Hours, 0)},
		{"but that too", []Chunk{chunk(Days, 0), chunk(Minutes, 0)}, chunk(Minutes, 0)},
	} {
		for range 2 {
			if got, found := keep.Early(c.held, now.Unix()); !found || got != c.want {
				t.Errorf("%s: of %v, %v goes first, want %v", c.promise, c.held, got, c.want)
			}
			slices.Reverse(c.held) // the order must not matter
		}
	}
	if got, found := keep.Early([]Chunk{chunk(Days, 0)}, now.Unix()); found {
		t.Errorf("days are downsampled early, as %v: there is nothing coarser", got)
	}
}
