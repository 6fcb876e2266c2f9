package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// headroom is how many bytes of garbage pile up before they are collected: so much that collecting costs little.
	gcGarbageBytes = 128 << 20
	// ample is how many bytes the process may always take; see memoryLimit.
	minMemoryLimit = 256 << 20
)

// keepHeadroom sets the collector's pace, after each collection, to the headroom, from 100 to 800 % of what is live,
// and a memory limit for while the collector is behind. GOGC turns both off, GOMEMLIMIT the limit.
func keepHeadroom(gogc string) {
	if gogc != "" {
		return
	}
	bounded := debug.SetMemoryLimit(-1) < math.MaxInt64
	set := func(live uint64) {
		debug.SetGCPercent(gcPercent(live))
		if !bounded {
			debug.SetMemoryLimit(memoryLimit(live))
		}
	}
	set(0)
	afterEachCollection(func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		set(live[0].Value.Uint64())
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
	return int(min(800, max(100, gcGarbageBytes*100/max(1, live))))
}

// memoryLimit returns how many bytes the process takes, stacks included, before the collector works harder than its
// pace.
func memoryLimit(live uint64) int64 {
	return int64(max(minMemoryLimit, 2*live+live/4))
}
