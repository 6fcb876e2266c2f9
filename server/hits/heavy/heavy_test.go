package heavy_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weirproxy/weir/server/hits/heavy"
)

// countedSketch is a sketch with the exact counts of its keys.
type countedSketch struct {
	most   int
	sketch *heavy.Sketch[uint64]
	exact  map[uint64]uint64
	total  uint64
}

func newCountedSketch(most int) *countedSketch {
	return &countedSketch{most: most, sketch: heavy.New[uint64](most), exact: make(map[uint64]uint64)}
}

func (c *countedSketch) add(key, weight uint64) {
	since, fresh := c.sketch.Add(key, weight)
	if fresh {
		*since = 0
	}
	*since += weight
	c.exact[key] += weight
	c.total += weight
}

// check fails the test unless the sketch's bounds hold for the exact counts.
func (c *countedSketch) check(t *testing.T) {
	t.Helper()
	missing := c.sketch.Missing()
	if missing > c.total/uint64(c.most+1) {
		t.Fatalf("up to %d of %d are missing, with room for %d; want at most a %dth", missing, c.total, c.most, c.most+1)
	}
	if n := len(c.sketch.Entries()); n > 2*c.most {
		t.Fatalf("the sketch has %d keys, want at most %d", n, 2*c.most)
	}
	held := make(map[uint64]bool)
	for _, h := range c.sketch.Entries() {
		exact := c.exact[h.Key]
		if held[h.Key] || h.Weight == 0 || h.Weight > h.Value || h.Value > exact || h.Weight+missing < exact {
			t.Fatalf("key %d: weight %d, counted since it came %d, exact %d, missing at most %d; want it once, and lower bounds "+
				"that miss no more", h.Key, h.Weight, h.Value, exact, missing)
		}
		held[h.Key] = true
		if kept, fresh := c.sketch.Add(h.Key, 0); fresh || *kept != h.Value {
			t.Fatalf("key %d is in Entries, but Add does not find it", h.Key)
		}
	}
	for key, exact := range c.exact {
		if !held[key] && exact > missing {
			t.Fatalf("key %d of weight %d is not in the sketch, which may miss at most %d; want every heavier key", key, exact, missing)
		}
	}
}

func FuzzBoundsHold(f *testing.F) {
	f.Add(uint64(1), uint8(1), uint8(3))
	f.Add(uint64(2), uint8(10), uint8(255))
	f.Add(uint64(3), uint8(0), uint8(7))
	f.Fuzz(func(t *testing.T, seed uint64, most, keys uint8) {
		random := rand.New(rand.NewPCG(seed, 0))
		first, second := newCountedSketch(max(1, int(most))), newCountedSketch(max(1, int(most)))
		for range 3000 {
			key := random.Uint64N(1+uint64(keys)) * random.Uint64N(1+uint64(keys))
			weight := 1 + random.Uint64N(1+uint64(keys)/4)
			first.add(key, weight)
			if random.IntN(3) == 0 {
				second.add(key<<32|key, weight) // the same low bits: keys meet in the table
			}
		}
		first.check(t)
		second.check(t)
	})
}

// The bounds of several sketches, of as many weirs, add up.
func TestBoundsAddUpOverSketches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.2, 1, 1<<20)
	parts := []*countedSketch{newCountedSketch(50), newCountedSketch(50), newCountedSketch(50)}
	for range 30_000 {
		parts[random.IntN(len(parts))].add(zipf.Uint64(), 1)
	}
	exact, bound, missing, total := make(map[uint64]uint64), make(map[uint64]uint64), uint64(0), uint64(0)
	for _, p := range parts {
		p.check(t)
		for key, n := range p.exact {
			exact[key] += n
		}
		for _, h := range p.sketch.Entries() {
			bound[h.Key] += h.Value
		}
		missing, total = missing+p.sketch.Missing(), total+p.total
	}
	for key, n := range exact {
		if bound[key] > n || bound[key]+missing < n {
			t.Errorf("key %d: %d of %d, missing at most %d", key, bound[key], n, missing)
		}
	}
	if missing > total/51 {
		t.Errorf("together %d of %d are missing, want at most a 51st", missing, total)
	}
}

func TestRenewKeepsKeysWithWeight(t *testing.T) {
	c := newCountedSketch(8)
	for key := range uint64(16) {
		c.add(key, key+1)
	}
	c.sketch.Reweigh(func(h *heavy.Entry[uint64]) uint64 { return h.Key % 2 * h.Value })
	for _, h := range c.sketch.Entries() {
		if kept, fresh := c.sketch.Add(h.Key, 0); fresh || h.Key%2 == 0 || *kept != h.Key+1 {
			t.Errorf("key %d keeps %v; want what has a weight, and that alone", h.Key, *kept)
		}
	}
	c.sketch.Reset()
	if n := len(c.sketch.Entries()); n != 0 {
		t.Errorf("%d keys are held after a reset", n)
	}
	if _, fresh := c.sketch.Add(1, 1); !fresh {
		t.Error("a key is held after a reset")
	}
}

func TestFullSketchAllocatesNothing(t *testing.T) {
	s, random := heavy.New[[4]uint64](64), rand.New(rand.NewPCG(1, 2))
	add := func() {
		for range 1000 {
			s.Add(random.Uint64N(1000), 1)
		}
	}
	add()
	if n := testing.AllocsPerRun(10, add); n != 0 {
		t.Errorf("%v allocations in 1000 calls, want none: the request path pays for each", n)
	}
}
