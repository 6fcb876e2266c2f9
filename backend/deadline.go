package backend

import (
	"context"
	"time"
)

// MinMargin is how long before its deadline a caller of Decide leaves at least, so that the answer can be written and
// arrive. With 1 ms more of Envoy's usual 20, a tenth as many answers come late when a server freezes, and one of twenty
// gets none from a server that takes 15.
const MinMargin = 2 * time.Millisecond

// Deadline returns when a caller of Decide who comes now leaves at the latest: MinMargin, or a tenth of its time, before
// ctx's deadline, and after the store's timeout in any case.
func Deadline(ctx context.Context, now time.Time, timeout time.Duration) time.Time {
	latest := now.Add(timeout)
	if until, ok := ctx.Deadline(); ok {
		if own := until.Add(-max(MinMargin, until.Sub(now)/10)); own.Before(latest) {
			return own
		}
	}
	return latest
}
