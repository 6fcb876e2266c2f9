package filehistory

import (
	"slices"
	"testing"

	"github.com/weirproxy/weir/backend/history"
)

func TestUnpackRefusesForeignBytes(t *testing.T) {
	hour, days := history.Chunk{Tier: history.Minutes}, history.Chunk{Tier: history.Days, Number: 2026}
	for promise, c := range map[string]struct {
		chunk  history.Chunk
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
		if got, err := unpack(c.chunk, c.packed); err == nil {
			t.Errorf("%s: % x is read as %v, want an error", promise, c.packed, got)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(uint8(0), int64(0), []byte{5, 0, 3, 7})
	f.Add(uint8(3), int64(1700000000), []byte{5, 2, 0, 3, 7, 7})
	f.Fuzz(func(t *testing.T, tier uint8, at int64, packed []byte) {
		c := history.ChunkOf(history.Tier(tier%uint8(history.Tiers)), at%history.Always().To)
		cells, err := unpack(c, packed)
		if err != nil {
			return
		}
		for i, cell := range cells {
			sorted := cell.Index >= 0 && cell.Index < c.Len() && (i == 0 || cell.Index > cells[i-1].Index)
			if !sorted || cell.Sum == 0 || cell.Peak > cell.Sum {
				t.Fatalf("% x of %v is read as %v: index %d is wrong", packed, c, cells, i)
			}
		}
		if again, err := unpack(c, pack(c.Tier, cells)); err != nil || !slices.Equal(again, cells) {
			t.Fatalf("%v, packed and read again, is %v, %v", cells, again, err)
		}
	})
}
