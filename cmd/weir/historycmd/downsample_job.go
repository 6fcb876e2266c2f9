package historycmd

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/wait"
)

// KeepDownsampled does all the time what weir downsample does once: it moves what is old in the history to coarser tiers
// about every interval until ctx ends. It logs only what a run moved, and why one failed: then the next one tries again.
func KeepDownsampled(ctx context.Context, store history.Store, interval time.Duration, log *slog.Logger) {
	for wait.For(ctx, jittered(interval)) {
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

// jittered returns half to one and a half of an interval, so that replicas which started together do not all begin at once.
func jittered(interval time.Duration) time.Duration {
	return interval/2 + rand.N(interval)
}
