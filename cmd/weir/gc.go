package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcGarbageBytes is how many bytes of garbage accumulate before a collection: enough for collections to cost little.
	gcGarbageBytes = 128 << 20
	// minMemoryLimit is the smallest result of memoryLimit, in bytes.
	minMemoryLimit = 256 << 20
)

// tuneCollector sets GOGC after each collection, from 100 to 800 %, so that gcGarbageBytes accumulate until the next. It
// also sets a memory limit, for when the collector falls behind. If the user sets GOGC, tuneCollector does nothing; if
// the user sets GOMEMLIMIT, it sets no limit.
func tuneCollector(gogc string) {
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

// afterEachCollection calls f after each garbage collection, by the cleanup of an unreachable object.
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

// memoryLimit returns how many bytes the process may take, stacks included, before the collector runs more often than
// GOGC makes it.
func memoryLimit(live uint64) int64 {
	return int64(max(minMemoryLimit, 2*live+live/4))
}
