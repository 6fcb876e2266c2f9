package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/wait"
)

// keepDownsampled moves what is old to coarser tiers until ctx ends, and logs what it did: about every interval, so that
// replicas which started together do not all begin at once.
func keepDownsampled(ctx context.Context, store history.Store, interval time.Duration, log *slog.Logger) {
	for wait.For(ctx, interval/2+rand.N(interval)) {
		begin := time.Now()
		done, err := store.Roll(ctx, history.Job{Now: begin})
		chunks, points := done.Sum()
		log := log.With("series", done.Series, "chunks", chunks, "points", points,
			"expired", done.Expired, "took", time.Since(begin).Round(time.Millisecond).String())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("downsampling the history failed; the next run tries again", "error", err)
		case chunks > 0 || done.Expired > 0:
			log.Info("downsampled the history")
		}
	}
}
