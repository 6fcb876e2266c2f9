// Command weir is a rate-limit service for Envoy: the server, and the tools to check its configuration and to ask it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	completion "github.com/jotaen/kong-completion"
	_ "golang.org/x/crypto/x509roots/fallback" // to verify public certificates in images without certificate authorities

	"github.com/weirproxy/weir/cmd/weir/callcmd"
	"github.com/weirproxy/weir/cmd/weir/checkcmd"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/cmd/weir/ratelimit"
	"github.com/weirproxy/weir/cmd/weir/ratelimit/tools"
	"github.com/weirproxy/weir/cmd/weir/simulatecmd"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// version is set by the linker; otherwise the version is that of the Go build info.
var version string

type commands struct {
	Serve    serveCommand        `cmd:"" help:"Answer Envoy's rate-limit requests."`
	Check    checkcmd.Command    `cmd:"" help:"Validate descriptor files, and explain which limits apply to a descriptor."`
	Schema   schemaCommand       `cmd:"" help:"Print the JSON Schema of descriptor files, for editors."`
	Call     callcmd.Command     `cmd:"" help:"Send requests to a rate-limit service, once or many times."`
	Simulate simulatecmd.Command `cmd:"" help:"Simulate limits on recorded or generated traffic."`
	Suggest  historycmd.Suggest  `cmd:"" help:"Suggest limits for a rule: how many minutes of its history each would have denied."`
	Counters countersCommand     `cmd:"" help:"Show the counters of a descriptor, reset them, give hits back, rank the keys with the most hits."`
	Denials  denialsCommand      `cmd:"" help:"Show why requests were denied: the last denial of each rule."`
	Quota    quotaCommand        `cmd:"" help:"Show the demands and shares of Envoys that limit by themselves (RLQS)."`
	History  historycmd.Command  `cmd:"" help:"Draw hits over time, rank rules, verify that no hit is lost, and move the history."`

	Downsample historycmd.Downsample `cmd:"" help:"Downsample the old parts of the history, once."`
	Version    versionCommand        `cmd:"" help:"Print the version."`
	Explain    helpCommand           `cmd:"" name:"help" help:"Show the help of a command."`
	Completion completion.Completion `cmd:"" help:"Print the completion script of a shell: weir completion bash."`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

func main() {
	os.Exit(run(ratelimit.Started(os.Args)))
}

// run runs one command of weir, or a program of envoyproxy/ratelimit, and returns the process's exit code.
func run(program string, args []string) int {
	out := terminal.Output{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Zone: time.Local}
	switch program {
	case ratelimit.Client:
		ctx, stop := signalContext(false)
		defer stop()
		return finish(tools.Client(ctx, args, out))
	case ratelimit.Check:
		return finish(tools.Check(args, out))
	case ratelimit.Server:
		return finish(serveAsRatelimit(args, out))
	}
	return finish(runCommand(args, out))
}

const description = `Limits requests for Envoy, and measures them.

To begin: weir serve --config DIR answers Envoy by the descriptor files in DIR, weir check DIR validates these files, and
weir call --domain D --descriptor key=value sends a request as Envoy does. weir COMMAND --help has the details.`

// runCommand runs one of weir's own commands.
func runCommand(args []string, out terminal.Output) error {
	var c commands
	parser, err := kong.New(&c,
		kong.Name("weir"),
		kong.Description(description),
		kong.UsageOnError(),
		kong.Vars{"version": "weir " + buildVersion(), "grpc": config.GRPCAddress()},
		kong.Bind(out, historycmd.Version(buildVersion()), historycmd.ServeFunc(func(ctx context.Context, dir string) error {
			return (&serveCommand{Config: dir}).Run(ctx, out)
		})),
	)
	if err != nil {
		return err
	}
	completion.Register(parser) // answers a shell's request for completions, and exits
	if len(args) == 0 {         // a container without a command must not look successful
		args, parser.Stdout, parser.Exit = []string{"--help"}, parser.Stderr, func(int) { os.Exit(int(terminal.ExitFailed)) }
	}
	k, err := parser.Parse(args)
	if err == nil {
		err = checkRepeatedFlags(k)
	}
	if err != nil {
		return fmt.Errorf("%w (weir --help lists the commands, weir COMMAND --help its flags)", err)
	}
	ctx, stop := commandContext(k.Command())
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	if verb, _, _ := strings.Cut(k.Command(), " "); verb == "call" || verb == "simulate" {
		context.AfterFunc(ctx, stop) // a second Ctrl-C kills a process that ignores ctx or waits for input
	}
	return k.Run(parser)
}

// checkRepeatedFlags returns an error if a flag that takes one value is given twice: kong would ignore the first value.
func checkRepeatedFlags(k *kong.Context) error {
	seen := make(map[*kong.Flag]bool)
	for _, p := range k.Path {
		if p.Flag != nil && seen[p.Flag] && !p.Flag.IsCumulative() {
			return fmt.Errorf("--%s is given twice: give it once", p.Flag.Name)
		}
		seen[p.Flag] = true
	}
	return nil
}

// finish prints an error on one line, unless the command has reported it already, and returns its exit code.
func finish(err error) int {
	code, reported := terminal.ExitCode(err)
	if !reported {
		fmt.Fprintln(os.Stderr, "weir:", descriptors.Printable(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return code
}

type schemaCommand struct{}

func (schemaCommand) Help() string {
	return `An editor with a YAML language server checks a descriptor file while you write it, if the file has the line

    # yaml-language-server: $schema=` + descriptors.SchemaURL + `

or, in place of that address, the path of a file:

    weir schema > schema.json`
}

func (schemaCommand) Run(out terminal.Output) error {
	_, err := io.WriteString(out.Out, descriptors.Schema)
	return err
}

type versionCommand struct{}

func (versionCommand) Run(out terminal.Output) error {
	_, err := fmt.Fprintln(out.Out, "weir", buildVersion())
	return err
}

// buildVersion returns the version of this binary, as far as it is known.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// signalContext returns a context that ends at the first SIGINT, SIGTERM or, unless excepted, SIGHUP.
func signalContext(exceptHangup bool) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !exceptHangup {
		signals = append(signals, syscall.SIGHUP)
	}
	return signal.NotifyContext(context.Background(), signals...)
}

// commandContext returns the context of a command, which kong names. SIGHUP ends neither servers, which reload, nor
// commands started by nohup. weir check has nothing to clean up, and may block on its input: signals kill it.
func commandContext(command string) (context.Context, context.CancelFunc) {
	serves := command == "serve" || command == "history serve"
	if verb, _, _ := strings.Cut(command, " "); verb == "check" {
		return context.WithCancel(context.Background())
	}
	return signalContext(serves || signal.Ignored(syscall.SIGHUP))
}

// secondSignal returns a context that ends at the first signal after the end of ctx: the user wants to exit now.
func secondSignal(ctx context.Context, exceptHangup bool) context.Context {
	second, end := context.WithCancelCause(context.Background())
	context.AfterFunc(ctx, func() {
		next, stop := signalContext(exceptHangup)
		defer stop()
		<-next.Done()
		end(errors.New("a second signal came"))
	})
	return second
}
