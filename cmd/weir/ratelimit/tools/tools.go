// Package tools is ratelimit_client and ratelimit_config_check, the other programs of envoyproxy/ratelimit.
package tools

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/callcmd"
	"github.com/weirproxy/weir/cmd/weir/checkcmd"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/ratelimit"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// clientTimeout ends a call to a server that hangs. The original waits forever.
const clientTimeout = time.Minute

// Client is ratelimit_client: it calls once, with that program's flags, and prints the answer. Its error is a
// terminal.Exit: No without an answer, Failed for a wrong flag.
func Client(ctx context.Context, arguments []string, out terminal.Output) error {
	c := callcmd.Command{Hits: 1, Timeout: clientTimeout}
	var all descriptorList
	flags := flag.NewFlagSet("ratelimit_client", flag.ContinueOnError)
	flags.StringVar(&c.Addr, "dial_string", "localhost:8081", "`HOST:PORT` of the server")
	flags.StringVar(&c.Domain, "domain", "", "the domain to ask about")
	flags.Var(&all, "descriptors", "a descriptor, as `KEY=VALUE,KEY=VALUE`; may be given several times")
	flags.BoolVar(&c.TLS, "grpc-use-tls", false, "use TLS")
	flags.StringVar(&c.CA, "grpc-server-ca-file", "", "`FILE` with the authorities that the server's certificate is checked by")
	flags.StringVar(&c.Cert, "grpc-cert-file", "", "`FILE` with the client's certificate")
	flags.StringVar(&c.Key, "grpc-key-file", "", "`FILE` with its key")
	flags.String("oltp-protocol", "", "taken without effect: no traces are sent")
	if more, err := parse(flags, arguments, out); !more {
		return err
	}
	flags.VisitAll(func(f *flag.Flag) { fmt.Fprintf(out.Out, "Flag: --%s=%q\n", f.Name, f.Value) })
	answer, err := c.Ask(ctx, all)
	if err != nil {
		fmt.Fprintf(out.Out, "request error: %s\n", descriptors.Printable(err.Error()))
		return terminal.ExitNo
	}
	_, err = fmt.Fprintf(out.Out, "response: %s\n", answer)
	return err
}

// parse reports whether the program goes on, or returns what it ends with. The flag package prints its own errors.
func parse(flags *flag.FlagSet, arguments []string, out terminal.Output) (more bool, err error) {
	flags.SetOutput(out.Err)
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		return false, nil
	case err != nil:
		return false, terminal.ExitFailed
	}
	return true, nil
}

// descriptorList is a flag. Its values have no escapes: each entry has one =, and no comma.
type descriptorList []descriptors.Descriptor

// String returns the descriptors as the flag reads them.
func (l *descriptorList) String() string {
	var all []string
	for _, d := range *l {
		all = append(all, d.String())
	}
	return strings.Join(all, " ")
}

// Set adds a descriptor.
func (l *descriptorList) Set(text string) error {
	var d descriptors.Descriptor
	for entry := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(entry, "=")
		if !found || strings.Contains(value, "=") {
			return fmt.Errorf("the entry %q is not KEY=VALUE", entry)
		}
		d = append(d, descriptors.Entry{Key: key, Value: value})
	}
	*l = append(*l, d)
	return nil
}

// Check is ratelimit_config_check. Its error is a terminal.Exit: No if the files are wrong, Failed if a flag is.
func Check(arguments []string, out terminal.Output) error {
	flags := flag.NewFlagSet("ratelimit_config_check", flag.ContinueOnError)
	dir := flags.String("config_dir", "", "`DIRECTORY` of descriptor files")
	merge := flags.Bool("merge_domain_configs", false, "let several files configure one domain")
	if more, err := parse(flags, arguments, out); !more {
		return err
	}
	files, err := ratelimit.ReadFiles(config.Process())
	if err != nil {
		return err
	}
	files.MergeDomains = *merge
	fmt.Fprintf(out.Out, "checking rate limit configs in %q\n", *dir)
	entries, err := os.ReadDir(*dir)
	var loaded *descriptors.Config
	var problems yaml.Problems
	if visible := func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") }; slices.ContainsFunc(entries, visible) {
		loaded, problems, err = file.Load(*dir, files.Options())
	}
	switch {
	case err != nil:
		fmt.Fprintf(out.Out, "error opening directory: %v\n", err)
		return terminal.ExitNo
	case !checkcmd.Report(out.Out, *dir, problems):
		fmt.Fprintln(out.Out, "error loading rate limit configs: they are listed above")
		return terminal.ExitNo
	case loaded != nil: // there may be no files: every request is OK then
		if err := checkcmd.List(out.Out, loaded); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out.Out, "all rate limit configs ok")
	return err
}
