package callcmd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/descriptors"
)

// question is what a call asks, from the flags.
type question struct {
	domain      string
	descriptors []descriptors.Descriptor
	limit       *descriptors.Limit // nil: the configured ones
	hits        uint32             // 0 looks
	refund      bool
	keys        uint64 // at least 1; with more, calls use them in turn
}

// request returns the n-th call's message. Hits stand at the request where they can, so that the rule decides what it
// charges, as for a plain request of Envoy's; a look and a refund can only be said at the descriptor.
func (q *question) request(n uint64) *rls.RateLimitRequest {
	req := &rls.RateLimitRequest{Domain: q.domain}
	atDescriptor := q.hits == 0 || q.refund
	if !atDescriptor {
		req.HitsAddend = q.hits
	}
	for _, d := range q.descriptors {
		wire := &ratelimit.RateLimitDescriptor{IsNegativeHits: q.refund}
		for _, e := range d {
			wire.Entries = append(wire.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		if q.keys > 1 {
			wire.Entries[len(d)-1].Value += "-" + strconv.FormatUint(n%q.keys, 10)
		}
		if atDescriptor {
			wire.HitsAddend = wrapperspb.UInt64(uint64(q.hits))
		}
		if l := q.limit; l != nil {
			wire.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: uint32(l.Requests), Unit: typev3.RateLimitUnit(l.Unit)}
			if l.Multiplier > 1 {
				wire.Limit.UnitMultiplier = wrapperspb.UInt32(l.Multiplier)
			}
		}
		req.Descriptors = append(req.Descriptors, wire)
	}
	return req
}

// caller is a connection to the service. It may be used by any number of goroutines.
type caller struct {
	*grpc.ClientConn
	addr    string
	timeout time.Duration // of each call
}

// dial prepares a connection without a proxy, as Envoy's; it is there again about a second after the service is.
func (c *Command) dial() (*caller, error) {
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	again := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second}
	reconnect := grpc.ConnectParams{Backoff: again, MinConnectTimeout: c.Timeout}
	conn, err := grpc.NewClient(c.Addr, grpc.WithTransportCredentials(transport),
		grpc.WithConnectParams(reconnect), grpc.WithNoProxy())
	if err != nil {
		return nil, fmt.Errorf("--addr %s: %w", c.Addr, err)
	}
	return &caller{ClientConn: conn, addr: c.Addr, timeout: c.Timeout}, nil
}

// transport returns what a connection is made with: plaintext, or TLS as the flags say.
func (c *Command) transport() (credentials.TransportCredentials, error) {
	if !c.TLS {
		return insecure.NewCredentials(), nil
	}
	host, _, _ := net.SplitHostPort(c.Addr) // a socket has none
	files := certs.Files{Cert: c.Cert, Key: c.Key, CA: c.CA, SAN: cmp.Or(c.ServerName, host)}
	config, err := certs.Client(files, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("--tls: %w", err)
	}
	return credentials.NewTLS(config), nil
}

// connect waits until the connection stands, has failed, or ctx ends, so that no call's latency holds its setup.
func (c *caller) connect(ctx context.Context) {
	c.Connect()
	state := c.GetState()
	for state != connectivity.Ready && state != connectivity.TransientFailure && c.WaitForStateChange(ctx, state) {
		state = c.GetState()
	}
}

// outcome is what became of one call: an answer or an error.
type outcome struct {
	resp    *rls.RateLimitResponse
	latency time.Duration
	err     error // a gRPC status
}

// ask sends one request and waits for the answer, at most until ctx ends.
func (c *caller) ask(ctx context.Context, req *rls.RateLimitRequest) outcome {
	start := time.Now()
	resp, err := rls.NewRateLimitServiceClient(c).ShouldRateLimit(ctx, req)
	return outcome{resp: resp, latency: time.Since(start), err: err}
}

// describe makes a sentence of a failed call, naming the address.
func (c *caller) describe(err error) error {
	s := status.Convert(err)
	switch refused, isDial := dialFailure(s.Message()); {
	case s.Code() == codes.Unavailable && isDial:
		return fmt.Errorf("cannot reach %s: %s; is weir serving there?", c.addr, refused)
	case s.Code() == codes.DeadlineExceeded:
		return fmt.Errorf("%s did not answer within %v", c.addr, c.timeout)
	case s.Code() == codes.Canceled:
		return fmt.Errorf("interrupted before %s answered", c.addr)
	}
	return fmt.Errorf("%s answered %s: %s", c.addr, s.Code(), s.Message())
}

// dialFailure cuts grpc's wrapping off the reason why there is no connection. It reports whether the message is one.
func dialFailure(message string) (string, bool) {
	reason, isDial := strings.CutPrefix(message, "connection error: desc = ")
	if !isDial {
		return message, false
	}
	if plain, err := strconv.Unquote(reason); err == nil {
		reason = plain
	}
	return strings.TrimPrefix(strings.TrimPrefix(reason, "transport: "), "Error while dialing: "), true
}
