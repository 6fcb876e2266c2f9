// Package hangup takes SIGHUP as the wish to have the configuration read again.
package hangup

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals are the SIGHUPs of a process that serves. None of them ends it. From nil none comes.
type Signals chan os.Signal

// Await begins to take them, for the rest of the process.
func Await() Signals {
	signals := make(Signals, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals
}

// Follow calls reload at each, until ctx ends. What comes later finds weir on its way out, and changes nothing.
func (s Signals) Follow(ctx context.Context, reload func()) {
	for {
		select {
		case <-s:
			reload()
		case <-ctx.Done():
			return
		}
	}
}
