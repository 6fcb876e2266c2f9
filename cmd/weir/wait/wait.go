// Package wait is what commands wait for: time to pass, or SIGHUP.
package wait

import (
	"context"
	"os"
	"os/signal"
	"syscall"
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

// Hangups are the SIGHUPs of a process that serves: each wants its configuration read again, and none ends it. From nil
// none comes.
type Hangups chan os.Signal

// NewHangups takes all that come from now on, for the rest of the process.
func NewHangups() Hangups {
	h := make(Hangups, 1)
	signal.Notify(h, syscall.SIGHUP)
	return h
}

// Follow calls reload at each, until ctx ends. What comes later finds weir on its way out, and changes nothing.
func (h Hangups) Follow(ctx context.Context, reload func()) {
	for {
		select {
		case <-h:
			reload()
		case <-ctx.Done():
			return
		}
	}
}
