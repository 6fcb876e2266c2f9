// Package wait pauses a command.
package wait

import (
	"context"
	"time"
)

// For waits until d, which may be below 0, has passed. It reports whether ctx is still alive; its end ends the wait.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
