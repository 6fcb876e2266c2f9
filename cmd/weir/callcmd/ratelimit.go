package callcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// ratelimitTimeout ends a question to a server that hangs. The program whose place this takes waits for ever.
const ratelimitTimeout = time.Minute

// Ratelimit is envoyproxy/ratelimit's ratelimit_client: it asks once, with that program's flags, and prints the answer. Its
// error is a terminal.Exit: No if there was no answer, Failed if a flag was wrong.
func Ratelimit(ctx context.Context, arguments []string, out terminal.Output) error {
	q := question{hits: 1, keys: 1}
	c := Command{Timeout: ratelimitTimeout}
	flags := flag.NewFlagSet("ratelimit_client", flag.ContinueOnError)
	flags.SetOutput(out.Err)
	flags.StringVar(&c.Addr, "dial_string", "localhost:8081", "`HOST:PORT` of the server")
	flags.StringVar(&q.domain, "domain", "", "the domain to ask about")
	flags.Var((*descriptorList)(&q.descriptors), "descriptors", "a descriptor, as `KEY=VALUE,KEY=VALUE`; may be given several times")
	flags.BoolVar(&c.TLS, "grpc-use-tls", false, "use TLS")
	flags.StringVar(&c.CA, "grpc-server-ca-file", "", "`FILE` with the authorities that the server's certificate is checked by")
	flags.StringVar(&c.Cert, "grpc-cert-file", "", "`FILE` with the client's certificate")
	flags.StringVar(&c.Key, "grpc-key-file", "", "`FILE` with its key")
	flags.String("oltp-protocol", "", "taken without effect: no traces are sent")
	switch err := flags.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return terminal.Failed // flag has told it
	}
	flags.VisitAll(func(f *flag.Flag) { fmt.Fprintf(out.Out, "Flag: --%s=%q\n", f.Name, f.Value) })
	answer, err := c.askOnce(ctx, &q)
	if err != nil {
		fmt.Fprintf(out.Out, "request error: %s\n", terminal.Printable(err.Error()))
		return terminal.No
	}
	_, err = fmt.Fprintf(out.Out, "response: %s\n", answer.resp)
	return err
}

// askOnce returns the answer to one request, whatever its verdict.
func (c *Command) askOnce(ctx context.Context, q *question) (outcome, error) {
	target, err := c.dial()
	if err != nil {
		return outcome{}, err
	}
	defer target.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	target.connect(ctx)
	answer := target.ask(ctx, q.request(0))
	return answer, answer.err
}

// descriptorList is a flag of Go's package flag. Its values have no escapes: each entry has one =, and no comma.
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
