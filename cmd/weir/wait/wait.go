// Package wait has what commands wait for: a time, or SIGHUP.
package wait

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// For waits for d, or until ctx ends. It returns at once if d is not above 0. It reports whether ctx is still alive.
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

// Hangups receives the SIGHUPs of a server. They make it read its configuration again, and do not end the process. A nil
// Hangups receives none.
type Hangups chan os.Signal

// NewHangups makes the process receive SIGHUPs from now on.
func NewHangups() Hangups {
	h := make(Hangups, 1)
	signal.Notify(h, syscall.SIGHUP)
	return h
}

// Follow calls reload at each SIGHUP until ctx ends. Later SIGHUPs have no effect.
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
