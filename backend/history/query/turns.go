package query

import (
	"context"
	"time"
)

// Turns lets so many answers be made at a time, so that they never use up the limiter's memory; others wait.
type Turns chan struct{}

// Take waits for a turn for so long at most, and reports whether it came; it must be given back then.
func (t Turns) Take(ctx context.Context, atMost time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// GiveBack ends a turn.
func (t Turns) GiveBack() { <-t }
