package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/weirproxy/weir/cmd/weir/hangup"
	"github.com/weirproxy/weir/cmd/weir/settings"
)

// untilTold returns a context that ends with the first signal that ends a command, which is named as kong does it. A check
// has nothing to bring to an end, and may wait for its input: the signal ends its process.
func untilTold(as settings.Program, command string) (context.Context, context.CancelFunc) {
	if verb, _, _ := strings.Cut(command, " "); verb == "check" {
		return context.WithCancel(context.Background())
	}
	return signal.NotifyContext(context.Background(), endingSignals(as, command)...)
}

// endingSignals are those that end a command. SIGHUP is none for those that serve, which read their configuration again,
// nor for one that was started to outlive its terminal, as nohup does it. It ends what envoyproxy/ratelimit's programs do.
func endingSignals(as settings.Program, command string) []os.Signal {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	isWeir := as != settings.RatelimitClient && !as.Replaces()
	serves := command == "serve" || command == "history serve"
	if isWeir && (serves || signal.Ignored(syscall.SIGHUP)) {
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

// awaitHangups begins to take SIGHUPs; as envoyproxy/ratelimit there are none to take.
func awaitHangups(as settings.Program) hangup.Signals {
	if as.Replaces() {
		return nil
	}
	return hangup.Await()
}
