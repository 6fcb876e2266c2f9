package callcmd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
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
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/descriptors"
)

// client calls the service with the flags of a command.
type client struct {
	*Command
	*grpc.ClientConn
	descriptors []descriptors.Descriptor
	limit       *descriptors.Limit // the override; nil for none
}

// request returns the message of a call. It sets the hits_addend of the request, as Envoy does, so that the rule decides
// what it charges. Hits of 0 and refunds exist only in a descriptor, so it sets these there.
func (c *client) request() *rls.RateLimitRequest {
	request := &rls.RateLimitRequest{Domain: c.Domain}
	atDescriptor := c.Hits == 0 || c.Refund
	if !atDescriptor {
		request.HitsAddend = c.Hits
	}
	for _, d := range c.descriptors {
		wire := &ratelimit.RateLimitDescriptor{IsNegativeHits: c.Refund}
		for _, e := range d {
			wire.Entries = append(wire.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		if atDescriptor {
			wire.HitsAddend = wrapperspb.UInt64(uint64(c.Hits))
		}
		if l := c.limit; l != nil {
			wire.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: uint32(l.Requests), Unit: typev3.RateLimitUnit(l.Unit)}
			if l.Multiplier > 1 {
				wire.Limit.UnitMultiplier = wrapperspb.UInt32(l.Multiplier)
			}
		}
		request.Descriptors = append(request.Descriptors, wire)
	}
	return request
}

// dial prepares a connection without a proxy, like Envoy's. After a failure it reconnects about once a second.
func (c *Command) dial() (*grpc.ClientConn, error) {
	transport, err := c.transport()
	if err != nil {
		return nil, err
	}
	retry := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second}
	conn, err := grpc.NewClient(c.Addr, grpc.WithTransportCredentials(transport), grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: c.Timeout}))
	if err != nil {
		return nil, fmt.Errorf("--addr %s: %w", c.Addr, err)
	}
	return conn, nil
}

// transport returns the credentials of a connection: plaintext, or TLS with the flags' files.
func (c *Command) transport() (credentials.TransportCredentials, error) {
	if !c.TLS {
		return insecure.NewCredentials(), nil
	}
	host, _, _ := net.SplitHostPort(c.Addr) // a Unix socket has no host
	files := certs.Files{Cert: c.Cert, Key: c.Key, CA: c.CA, SAN: cmp.Or(c.ServerName, host)}
	config, err := certs.Client(files, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("--tls: %w", err)
	}
	return credentials.NewTLS(config), nil
}

// connect waits until the connection is ready or has failed, so that its setup does not count in a call's latency.
func (c *client) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	c.Connect()
	state := c.GetState()
	for state != connectivity.Ready && state != connectivity.TransientFailure && c.WaitForStateChange(ctx, state) {
		state = c.GetState()
	}
}

// callResult is the answer or the error of one call.
type callResult struct {
	resp    *rls.RateLimitResponse
	latency time.Duration
	err     error // a gRPC status
}

// denied reports whether Envoy would deny the request.
func (r *callResult) denied() bool { return r.resp.GetOverallCode() == overLimit }

// unknownDomain reports whether the answer says that no file configures the domain.
func (r *callResult) unknownDomain() bool { return r.metadata("unknown_domain").GetBoolValue() }

// metadata returns a field of the answer's dynamic metadata, nil if there is none.
func (r *callResult) metadata(name string) *structpb.Value {
	return r.resp.GetDynamicMetadata().GetFields()[name]
}

// call sends one request and waits for the answer, at most until its timeout.
func (c *client) call(ctx context.Context) callResult {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	start := time.Now()
	resp, err := rls.NewRateLimitServiceClient(c).ShouldRateLimit(ctx, c.request())
	return callResult{resp: resp, latency: time.Since(start), err: err}
}

// Ask calls once with these descriptors and returns the answer, whatever its verdict.
func (c *Command) Ask(ctx context.Context, all []descriptors.Descriptor) (*rls.RateLimitResponse, error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	caller := client{Command: c, ClientConn: conn, descriptors: all}
	result := caller.callOnce(ctx)
	return result.resp, result.err
}

// callOnce connects and calls, both within the timeout.
func (c *client) callOnce(ctx context.Context) callResult {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	c.connect(ctx)
	return c.call(ctx)
}

// likelyCause returns the probable cause of a failed connection, given the error message.
func (c *Command) likelyCause(message string) string {
	switch {
	case strings.Contains(message, "HTTP/1.1"):
		return "HTTP is spoken there, as at weir's PORT (8080) and DEBUG_PORT (6070): name its GRPC_PORT (8081);"
	case strings.Contains(message, "does not look like a TLS handshake"):
		return "no TLS is spoken there: leave out --tls;"
	case !c.TLS && strings.Contains(message, "error reading server preface"):
		return "a plaintext connection was closed: if TLS is spoken there, add --tls;"
	}
	return "is weir serving there?"
}

// describeError returns the error of a failed call as a sentence that names the address.
func (c *client) describeError(err error) error {
	switch s := status.Convert(err); {
	case s.Code() == codes.Unavailable && strings.HasPrefix(s.Message(), "connection error"):
		return fmt.Errorf("cannot reach %s: %s %s", c.Addr, c.likelyCause(s.Message()), s.Message())
	case s.Code() == codes.DeadlineExceeded:
		return fmt.Errorf("%s did not answer within %v", c.Addr, c.Timeout)
	case s.Code() == codes.Canceled:
		return fmt.Errorf("interrupted before %s answered", c.Addr)
	default:
		return fmt.Errorf("%s answered %s: %s", c.Addr, s.Code(), s.Message())
	}
}
