package history

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPackedCellsAreReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		c := ChunkOf(Tier(n%Tiers), r.Int64N(maxMinute)*minute)
		var cells Cells
		for place := range c.Places() {
			if r.IntN(1+n%50) > 0 {
				continue
			}
			cell := Cell{Place: place, Sum: 1 + r.Uint64N(1<<r.IntN(59))}
			cell.Peak = cell.Sum
			if c.Tier > Minutes {
				cell.Peak = 1 + r.Uint64N(cell.Sum)
			}
			cells = append(cells, cell)
		}
		got, err := c.Unpack(c.Tier.Pack(nil, cells))
		if err != nil || !slices.Equal(got, cells) {
			t.Fatalf("%v of %v are read back as %v, %v", cells, c, got, err)
		}
	}
}

// Five thousand points, the most that a series keeps finer than a day, must stay small.
func TestPackedCellsAreSmall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		tier   Tier
		mean   int
		places int
		bytes  int // at most
	}{
		{Minutes, 5, 60, 60}, {Minutes, 500, 60, 120},
		{FiveMinutes, 500, 288, 4 * 288}, {Hours, 500, 168, 5 * 168}, {Days, 500, 366, 5 * 366},
	} {
		var cells Cells
		for place := range c.places {
			sum := uint64(1+c.mean/2+r.IntN(c.mean)) * uint64(c.tier.Width()/minute)
			cells = append(cells, Cell{Place: place, Sum: sum, Peak: uint64(c.mean)})
		}
		if got := len(c.tier.Pack(nil, cells)); got > c.bytes {
			t.Errorf("%d %s of %d hits a minute take %d bytes, want at most %d", c.places, c.tier, c.mean, got, c.bytes)
		}
	}
}

func TestUnpackRefusesWhatWasNeverPacked(t *testing.T) {
	hour, days := Chunk{Minutes, 0}, Chunk{Days, 2026}
	for promise, c := range map[string]struct {
		chunk  Chunk
		packed []byte
	}{
		"a number that does not end":    {hour, []byte{0x80}},
		"a gap without its length":      {hour, []byte{5, 0}},
		"a gap beyond the chunk":        {hour, []byte{0, 59, 7}},
		"a gap beyond all bounds":       {hour, []byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 7}},
		"more minutes than an hour has": {hour, slices.Repeat([]byte{1}, 61)},
		"a day without its peak":        {days, []byte{5}},
		"a peak of nothing":             {days, []byte{5, 0}},
		"a peak above its sum":          {days, []byte{5, 6}},
		"a day that the year lacks":     {days, slices.Repeat([]byte{1, 1}, 366)},
		"more than a series can hold":   {hour, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
	} {
		if got, err := c.chunk.Unpack(c.packed); err == nil {
			t.Errorf("%s: % x is read as %v, want an error", promise, c.packed, got)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(uint8(0), int64(0), []byte{5, 0, 3, 7})
	f.Add(uint8(3), int64(1700000000), []byte{5, 2, 0, 3, 7, 7})
	f.Fuzz(func(t *testing.T, tier uint8, at int64, packed []byte) {
		c := ChunkOf(Tier(tier%uint8(Tiers)), at%(maxMinute*minute))
		cells, err := c.Unpack(packed)
		if err != nil {
			return
		}
		for i, cell := range cells {
			sorted := cell.Place >= 0 && cell.Place < c.Places() && (i == 0 || cell.Place > cells[i-1].Place)
			if !sorted || cell.Sum == 0 || cell.Peak > cell.Sum {
				t.Fatalf("% x of %v is read as %v: place %d is wrong", packed, c, cells, i)
			}
		}
		if again, err := c.Unpack(c.Tier.Pack(nil, cells)); err != nil || !slices.Equal(again, cells) {
			t.Fatalf("%v, packed and read again, is %v, %v", cells, again, err)
		}
	})
}

func TestEarlyChoosesWhatTheJobWouldMoveFirst(t *testing.T) {
	keep := DefaultKeep()
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
		t.Errorf("days are rolled early, as %v: there is nothing coarser", got)
	}
}

func TestLateHitsAreShownInTheStoredBucket(t *testing.T) {
	got := fold([]Point{
		{Start: 7200, Tier: Minutes, Sum: 1, Peak: 1},
		{Start: 3600, Tier: Minutes, Sum: 2, Peak: 2},
		{Start: 3600, Tier: FiveMinutes, Sum: 4, Peak: 3},
		{Start: 7140, Tier: Minutes, Sum: 8, Peak: 8},
		{Start: 3600, Tier: Hours, Sum: 16, Peak: 5},
		{Start: 0, Tier: FiveMinutes, Sum: 32, Peak: 6},
	})
	want := []Point{
		{Start: 0, Tier: FiveMinutes, Sum: 32, Peak: 6},
		{Start: 3600, Tier: Hours, Sum: 30, Peak: 8},
		{Start: 7200, Tier: Minutes, Sum: 1, Peak: 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the points are\n%v, want\n%v: points that overlap are counted twice by whoever looks at them",
			got, want)
	}
}
