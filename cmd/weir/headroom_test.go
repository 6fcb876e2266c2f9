package main

import "testing"

func TestHeadroomShrinksBesideAFullStore(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 10 << 20: 800, 32 << 20: 400, 64 << 20: 200, 1 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("with %d bytes live the pace is %d %%, want %d %%", live, got, want)
		}
	}
}

func TestTheMemoryLimitLeavesAFullStoreItsPace(t *testing.T) {
	for live, want := range map[uint64]int64{0: 256 << 20, 100 << 20: 256 << 20, 1 << 30: 2304 << 20} {
		if got := memoryLimit(live); got != want {
			t.Errorf("with %d bytes live the limit is %d, want %d: below what the pace leads to, the collector would never rest", live, got, want)
		}
	}
}
