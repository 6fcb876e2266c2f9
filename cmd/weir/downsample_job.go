package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// downsampleInterval is how often weir serve downsamples. Minutes become due by the hour, so more often moves no more.
const downsampleInterval = 5 * time.Minute

// runDownsampling runs the downsampling job about every interval until ctx ends. It logs only what a job moved, and why
// it failed: then the next one tries again.
func runDownsampling(ctx context.Context, store history.Store, interval time.Duration, log *slog.Logger) {
	for sleep(ctx, jittered(interval)) {
		begin := time.Now()
		done, err := store.Roll(ctx, history.Job{Now: begin})
		log := log.With("series", done.Series, "chunks", total(done.Chunks), "points", total(done.Points),
			"expired", done.Expired, "took", time.Since(begin).Round(time.Millisecond).String())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("downsampling the history failed; the next run tries again", "error", err)
		case total(done.Chunks) > 0 || done.Expired > 0:
			log.Info("downsampled the history")
		}
	}
}

// jittered is half to one and a half of an interval, so that replicas which started together do not all begin at once.
func jittered(interval time.Duration) time.Duration {
	return interval/2 + rand.N(interval)
}
