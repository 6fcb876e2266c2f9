package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// untilSignal returns a context that ends with the first signal that ends what runs: SIGHUP among them, unless it means
// something else.
func untilSignal(exceptHangup bool) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !exceptHangup {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
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
	context.AfterFunc(ctx, func() {
		next, stop := untilSignal(exceptHangup)
		defer stop()
		<-next.Done()
		end(errors.New("a second signal came"))
	})
	return second
}
