// Command weir is a rate-limit service for Envoy: the server, and the tools to check its configuration and to ask it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
	_ "golang.org/x/crypto/x509roots/fallback" // images without certificate authorities can verify a public one too
)

// version is set by the linker; builds without it show what the Go tool knows.
var version string

type commands struct {
	Serve    serveCmd    `cmd:"" help:"Answer Envoy's rate-limit requests."`
	Check    checkCmd    `cmd:"" help:"Validate a directory of descriptor files, and explain what a descriptor gets."`
	Call     callCmd     `cmd:"" help:"Ask a rate-limit service, once or many times."`
	Counters countersCmd `cmd:"" help:"Look at what is counted for a descriptor, reset it, give hits back."`
	History  historyCmd  `cmd:"" help:"Draw hits over time, rank rules, prove that no hit is lost."`

	Downsample downsampleCmd `cmd:"" help:"Move what is old in the history to coarser buckets, once."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

func main() {
	os.Exit(run(programOf(os.Args[0]), os.Args[1:]))
}

// run runs one command of a program that was started by this name, and returns the process's exit code.
func run(as program, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var c commands
	parser, err := kong.New(&c,
		kong.Name("weir"),
		kong.Description("Limits requests for Envoy, and measures them."),
		kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(as),
	)
	if err != nil {
		return told(err)
	}
	k, err := parser.Parse(as.arguments(args))
	if err != nil {
		return told(fmt.Errorf("%w (weir --help lists the commands, weir COMMAND --help its flags)", err))
	}
	if k.Command() == "call" {
		context.AfterFunc(ctx, stop) // a second Ctrl-C ends a call that does not end by itself
	}
	return told(k.Run())
}

// told prints an error, unless it has been told already, and gives the exit code for it: 2 for a mistake or a failure.
func told(err error) int {
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "weir:", err)
	return 2
}

type versionCmd struct{}

// Run prints the version on one line.
func (versionCmd) Run() error {
	fmt.Println("weir", buildVersion())
	return nil
}

// buildVersion is the version of this binary, as well as it is known.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
