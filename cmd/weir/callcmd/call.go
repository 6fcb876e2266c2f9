// Package callcmd is weir call: it calls a rate-limit service as Envoy does, once or many times.
package callcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// Command calls a rate-limit service once, or many times, and prints the answers.
type Command struct {
	Addr       string        `default:"${grpc}" help:"HOST:PORT of its gRPC, or unix:/PATH of its socket; without it what GRPC_HOST, GRPC_PORT and GRPC_UDS say."`
	Domain     string        `required:"" placeholder:"NAME" help:"The domain of the request."`
	Descriptor []string      `required:"" sep:"none" placeholder:"K=V,K=V" help:"A descriptor; may be given several times."`
	Hits       uint32        `default:"1" help:"Hits to count; 0 only checks."`
	Refund     bool          `help:"Give the hits back instead of counting them."`
	Limit      string        `placeholder:"10/minute" help:"Send this limit with the request, in place of the configured one."`
	Timeout    time.Duration `default:"1s" help:"How long to wait for an answer."`
	JSON       bool          `name:"json" help:"Print each answer as JSON."`

	TLS        bool   `name:"tls" group:"TLS" help:"Use TLS; without it, plaintext."`
	CA         string `name:"ca" group:"TLS" placeholder:"FILE" help:"Authorities to trust, in PEM, instead of those of the system."`
	Cert       string `group:"TLS" placeholder:"FILE" help:"The client's own certificate, in PEM."`
	Key        string `group:"TLS" placeholder:"FILE" help:"Its key."`
	ServerName string `group:"TLS" placeholder:"NAME" help:"The name that the server's certificate must have; by default the host of --addr."`

	Rate float64       `group:"Many calls" placeholder:"R" help:"Calls a second, one after the other."`
	For  time.Duration `group:"Many calls" placeholder:"30s" help:"How long to call with --rate; without it, until Ctrl-C."`
}

// Help returns what weir call --help shows below the first sentence.
func (*Command) Help() string {
	return `Sends a request as Envoy does, and prints the verdict, the limit, the remaining hits and the time until they change.
Exit code: 0 for OK, 1 for over a limit, 2 for an error or an unknown domain, which stderr has. In a descriptor the first =
of an entry separates key and value, \, is a comma and \\ a backslash.

    weir call --domain shop --descriptor user=ann
    weir call --domain shop --descriptor user=ann,path=/pay --limit 10/5minute --json
    weir call --addr weir:8081 --tls --ca ca.crt --cert tls.crt --key tls.key --domain shop --descriptor user=ann
    weir call --domain shop --descriptor user=ann --rate 2 --for 30s

A sliding window resets when the bucket of its oldest hits leaves it: after up to 61 s for a minute, whose buckets have one
second. weir reports requests that shadow mode let pass, and unknown domains, if DENIAL_METADATA is on: by default it is,
but not as ratelimit. Other services do not report them.

With --rate it calls many times: it prints a line each second and at each change between OK and over, and the latencies in
the end. The exit code is then 2 if a call failed, else 1 if one was over.

--json prints a line for each call: the answer in protobuf's JSON, as POST /json has it.`
}

// Run calls, prints the answer and returns a terminal.Exit unless the verdict is OK.
func (c *Command) Run(ctx context.Context, out terminal.Output) error {
	err := c.run(ctx, out.Out)
	if _, reported := terminal.ExitCode(err); reported {
		return err
	}
	fmt.Fprintf(out.Err, "weir call: %s\n", descriptors.Printable(err.Error()))
	return terminal.ExitFailed
}

func (c *Command) run(ctx context.Context, out io.Writer) error {
	caller, err := c.client()
	if err != nil {
		return err
	}
	if err := c.checkFlags(); err != nil {
		return err
	}
	if caller.ClientConn, err = c.dial(); err != nil {
		return err
	}
	defer caller.Close()
	if c.Rate > 0 {
		return caller.callRepeatedly(ctx, out)
	}
	return caller.printOnce(ctx, out)
}

// client returns an unconnected client for the flags of the request. Its errors name the flag and how to write it.
func (c *Command) client() (*client, error) {
	if c.Refund && c.Hits == 0 {
		return nil, errors.New("--refund with --hits 0 gives nothing back: leave out one of them")
	}
	caller := &client{Command: c}
	for _, text := range descriptors.SplitRequest(strings.Join(c.Descriptor, " + ")) {
		d, err := descriptors.ParseDescriptor(text)
		if err != nil {
			return nil, fmt.Errorf("--descriptor: %w", err)
		}
		caller.descriptors = append(caller.descriptors, d)
	}
	if c.Limit != "" {
		l, err := ParseLimit(c.Limit)
		if err != nil {
			return nil, fmt.Errorf("--limit: %w", err)
		}
		caller.limit = &l
	}
	return caller, nil
}

// The bounds of --rate, in calls a second. Higher rates need a load generator.
const minRate, maxRate = 0.001, 1000

// checkFlags checks the flags of the address, TLS, timeout and repetition. Its errors name the flag.
func (c *Command) checkFlags() error {
	path, isUnix := strings.CutPrefix(c.Addr, "unix:")
	_, port, err := net.SplitHostPort(c.Addr)
	switch {
	case isUnix && path == "":
		return errors.New("--addr unix: lacks the path of a socket")
	case !isUnix && (err != nil || port == ""):
		return fmt.Errorf("--addr %q is not HOST:PORT, nor unix:/PATH", c.Addr)
	case !c.TLS && cmp.Or(c.CA, c.Cert, c.Key, c.ServerName) != "":
		return errors.New("--ca, --cert, --key and --server-name are for TLS: add --tls")
	case c.Timeout <= 0:
		return fmt.Errorf("--timeout %v must be above 0", c.Timeout)
	case c.Rate != 0 && !(c.Rate >= minRate && c.Rate <= maxRate):
		return fmt.Errorf("--rate %v must lie between %v and %d calls a second", c.Rate, minRate, maxRate)
	case c.For < 0:
		return fmt.Errorf("--for %v must be above 0", c.For)
	case c.For > 0 && c.Rate == 0:
		return errors.New("--for is for many calls: add --rate")
	}
	return nil
}

var limitPattern = regexp.MustCompile(`^(\d+)/(\d*)([a-zA-Z]+)$`)

// ParseLimit reads a limit as [descriptors.Limit.String] writes it: 10/minute, or 10/5minute.
func ParseLimit(text string) (descriptors.Limit, error) {
	found := limitPattern.FindStringSubmatch(text)
	if found == nil {
		return descriptors.Limit{}, fmt.Errorf("%q is not a limit: write 10/minute or 10/5minute", text)
	}
	requests, tooMany := strconv.ParseUint(found[1], 10, 32)
	multiplier, tooLong := strconv.ParseUint(cmp.Or(found[2], "1"), 10, 32)
	unit, err := descriptors.ParseUnit(found[3])
	if err = cmp.Or(tooMany, tooLong, err); err != nil {
		return descriptors.Limit{}, fmt.Errorf("%q: %w", text, err)
	}
	limit, err := descriptors.NewLimit(requests, unit, uint32(multiplier), descriptors.FixedWindow, 0)
	if err != nil {
		err = fmt.Errorf("%q: %w", text, err)
	}
	return limit, err
}
