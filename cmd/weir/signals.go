package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// endingSignals are those that end what runs: SIGHUP among them, unless it means something else.
func endingSignals(exceptHangup bool) []os.Signal {
	if exceptHangup {
		return []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
}

// untilSignal returns a context that ends with the first of these signals.
func untilSignal(exceptHangup bool) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), endingSignals(exceptHangup)...)
}

// commandContext returns a command's context, by kong's name. SIGHUP ends neither servers, which reload, nor what nohup
// started. A check has nothing to end, and may wait for input: signals end its process.
func commandContext(command string) (context.Context, context.CancelFunc) {
	serves := command == "serve" || command == "history serve"
	if verb, _, _ := strings.Cut(command, " "); verb == "check" {
		return context.WithCancel(context.Background())
	}
	return untilSignal(serves || signal.Ignored(syscall.SIGHUP))
}

// secondSignal ends when a signal comes after the one that ended ctx: the user wants out now.
func secondSignal(ctx context.Context, exceptHangup bool) context.Context {
	second, end := context.WithCancelCause(context.Background())
	go func() {
		<-ctx.Done()
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, endingSignals(exceptHangup)...)
		<-signals
		end(errors.New("a second signal came"))
	}()
	return second
}
