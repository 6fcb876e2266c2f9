// Command weir is a rate-limit service for Envoy: the server, and the tools to check its configuration and to ask it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	_ "golang.org/x/crypto/x509roots/fallback" // images without certificate authorities can verify a public one too

	"github.com/weirproxy/weir/cmd/weir/callcmd"
	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// version is set by the linker; builds without it show what the Go tool knows.
var version string

type commands struct {
	Serve    serveCommand       `cmd:"" help:"Answer Envoy's rate-limit requests."`
	Check    checkCommand       `cmd:"" help:"Validate a directory of descriptor files, and explain what a descriptor gets."`
	Call     callcmd.Command    `cmd:"" help:"Ask a rate-limit service, once or many times."`
	Counters countersCommand    `cmd:"" help:"Look at what is counted for a descriptor, reset it, give hits back."`
	History  historycmd.Command `cmd:"" help:"Draw hits over time, rank rules, prove that no hit is lost."`

	Downsample historycmd.Downsample `cmd:"" help:"Move what is old in the history to coarser buckets, once."`
	Version    versionCommand        `cmd:"" help:"Print the version."`
}

func main() {
	os.Exit(run(settings.ProgramOf(os.Args[0]), os.Args[1:]))
}

// run runs one command of a program that was started by this name, and returns the process's exit code.
func run(as settings.Program, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var c commands
	parser, err := kong.New(&c,
		kong.Name("weir"),
		kong.Description("Limits requests for Envoy, and measures them."),
		kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(as, terminal.Output{Out: os.Stdout, Err: os.Stderr, Zone: time.Local}),
	)
	if err != nil {
		return tell(err)
	}
	k, err := parser.Parse(as.Arguments(args))
	if err != nil {
		return tell(fmt.Errorf("%w (weir --help lists the commands, weir COMMAND --help its flags)", err))
	}
	if k.Command() == "call" {
		context.AfterFunc(ctx, stop) // a second Ctrl-C ends a call that does not end by itself
	}
	return tell(k.Run())
}

// tell prints an error that has not been told yet, and returns the exit code for it.
func tell(err error) int {
	code, told := terminal.ExitCode(err)
	if !told {
		fmt.Fprintln(os.Stderr, "weir:", err)
	}
	return code
}

type versionCommand struct{}

func (versionCommand) Run(out terminal.Output) error {
	_, err := fmt.Fprintln(out.Out, "weir", buildVersion())
	return err
}

// buildVersion returns the version of this binary, as well as it is known.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
