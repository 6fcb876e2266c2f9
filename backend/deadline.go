package backend

import (
	"context"
	"time"
)

// MinMargin is the least time between the return of Decide and its caller's deadline, for writing and sending the
// answer. With Envoy's usual deadline of 20 ms, a margin of 3 ms would make 10 times fewer answers late when a server
// freezes, but 1 in 20 checks of a server that takes 15 ms would get no answer.
const MinMargin = 2 * time.Millisecond

// Deadline returns when a call of Decide that begins now must return: after the store's timeout, or, if that is
// earlier, MinMargin or a tenth of the remaining time before ctx's deadline, whichever is more.
func Deadline(ctx context.Context, now time.Time, timeout time.Duration) time.Time {
	latest := now.Add(timeout)
	if until, ok := ctx.Deadline(); ok {
		if byCaller := until.Add(-max(MinMargin, until.Sub(now)/10)); byCaller.Before(latest) {
			return byCaller
		}
	}
	return latest
}
