package main

import "testing"

func TestHeadroomShrinksBesideAFullStore(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 10 << 20: 800, 32 << 20: 400, 64 << 20: 200, 1 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("with %d bytes live the pace is %d %%, want %d %%", live, got, want)
		}
	}
}
