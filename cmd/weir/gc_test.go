package main

import "testing"

func TestGCPercentFollowsLiveMemory(t *testing.T) {
	for live, want := range map[uint64]struct {
		percent int
		limit   int64
	}{
		0: {800, 256 << 20}, 10 << 20: {800, 256 << 20}, 32 << 20: {400, 256 << 20}, 64 << 20: {200, 256 << 20},
		1 << 30: {100, 2304 << 20},
	} {
		if percent, limit := gcPercent(live), memoryLimit(live); percent != want.percent || limit != want.limit {
			t.Errorf("with %d bytes live the pace is %d %% and the limit %d, want %+v: a limit below what the pace leads to "+
				"would never let the collector rest", live, percent, limit, want)
		}
	}
}
