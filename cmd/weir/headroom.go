package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// headroom is how many bytes of garbage pile up before they are collected: so much that collecting costs little.
const headroom = 128 << 20

// keepHeadroom sets the collector's pace, after each collection, to the headroom: at most 800 % of what is live, and at
// least 100 %. It does nothing if the user has set GOGC.
func keepHeadroom(gogc string) {
	if gogc != "" {
		return
	}
	debug.SetGCPercent(gcPercent(0))
	afterEachCollection(func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
	})
}

// afterEachCollection calls f after each collection from now on, by leaving something to collect.
func afterEachCollection(f func()) {
	garbage := new([16]byte)
	runtime.AddCleanup(garbage, func(struct{}) {
		f()
		afterEachCollection(f)
	}, struct{}{})
}

func gcPercent(live uint64) int {
	return int(min(800, max(100, headroom*100/max(1, live))))
}
