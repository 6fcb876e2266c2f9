package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// headroom is how much garbage weir lets pile up, in bytes, before it is collected: enough that collecting costs
// little at thousands of requests a second, and little beside the counters of a full memory store.
const headroom = 128 << 20

// keepHeadroom sets the collector's pace to the headroom, as far as 400 % of what is live, and at least 100 %. It does
// nothing if the user has set GOGC.
func keepHeadroom(ctx context.Context, gogc string) {
	if gogc != "" {
		return
	}
	debug.SetGCPercent(400)
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			metrics.Read(live)
			debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
		}
	}
}

func gcPercent(live uint64) int {
	return int(min(400, max(100, headroom*100/max(1, live))))
}
