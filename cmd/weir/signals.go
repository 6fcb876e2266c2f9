package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirproxy/weir/cmd/weir/settings"
)

// untilTold returns a context that ends with the first signal that ends a command. A check has nothing to bring to an
// end, and may wait for its input: the signal ends its process.
func untilTold(as settings.Program, command string) (context.Context, context.CancelFunc) {
	if command == "check" {
		return context.WithCancel(context.Background())
	}
	return signal.NotifyContext(context.Background(), endingSignals(as, command)...)
}

// endingSignals are those that end a command. SIGHUP is none for weir serve, which reads its configuration again, nor for
// a command that was started to outlive its terminal, as nohup does it. It ends what envoyproxy/ratelimit's programs do.
func endingSignals(as settings.Program, command string) []os.Signal {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	isWeir := as != settings.RatelimitClient && !as.Replaces()
	if isWeir && (command == "serve" || signal.Ignored(syscall.SIGHUP)) {
		return ends
	}
	return append(ends, syscall.SIGHUP)
}

// secondSignal ends when a signal comes after the one that ended ctx: the user wants out now.
func secondSignal(ctx context.Context, as settings.Program) context.Context {
	second, end := context.WithCancelCause(context.Background())
	go func() {
		<-ctx.Done()
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, endingSignals(as, "serve")...)
		<-signals
		end(errors.New("a second signal came"))
	}()
	return second
}

// hangups are the SIGHUPs of a weir that serves. None ends it, from the first moment to the last.
type hangups chan os.Signal

// awaitHangups begins to take them; as envoyproxy/ratelimit there are none to take.
func awaitHangups(as settings.Program) hangups {
	signals := make(hangups, 1)
	if !as.Replaces() {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals
}

// follow calls reload at each, until ctx ends. What comes later finds weir on its way out, and changes nothing.
func (h hangups) follow(ctx context.Context, reload func()) {
	for {
		select {
		case <-h:
			reload()
		case <-ctx.Done():
			return
		}
	}
}
