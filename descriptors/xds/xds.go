// Package xds gets the configuration from an xDS server such as Envoy Gateway: the state of the world of
// ratelimit.config.ratelimit.v3.RateLimitConfig, over an aggregated discovery stream (ADS).
//
// Each response is the whole configuration, with a resource for each domain. An error in a resource affects only its
// domain, as in [yaml.LastGood.Update]: the other domains are applied, and the response is rejected (NACK) with the
// errors. While the server is away or silent, the last configuration stays in force.
package xds

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// Config configures the connection to a server.
type Config struct {
	Server     string      // host:port, or any other target that gRPC accepts
	TLS        *tls.Config // nil for plaintext
	Node       string      // node id, by which the server selects the configuration
	Metadata   map[string]string
	Headers    map[string]string // headers of each stream
	MaxMessage int               // largest response, in bytes; 0: 64 MiB
	Backoff    Backoff
	Rules      yaml.Options
	Log        *slog.Logger
	// OnError, if not nil, is called by Run for each response that was rejected, in whole or in part, with the error and
	// after apply. It is called once for a response that the server sends again and again.
	OnError func(error)
}

// Backoff configures the waits between streams. The first wait after a stream that delivered a response is Retry, as a
// server that was only restarted is back soon. The next is Initial, and each further one twice as long, up to Max.
type Backoff struct {
	Retry, Initial, Max time.Duration
	// Jitter is the random part of a wait, from 0 to 1, so that the clients of a server do not all come back at the same
	// moment. With 0.5 a wait of 10 s takes 5 to 10 s.
	Jitter float64
}

// minWait is the shortest wait, to bound the load on a server that ends each stream.
const minWait = 100 * time.Millisecond

// bounded returns b with a Max not below its other waits, and a Jitter from 0 to 1.
func (b Backoff) bounded() Backoff {
	b.Max = max(b.Max, b.Initial, b.Retry)
	if b.Jitter = min(b.Jitter, 1); !(b.Jitter > 0) { // or not a number
		b.Jitter = 0
	}
	return b
}

// next returns the wait after another one: twice as long, from Initial to Max.
func (b Backoff) next(wait time.Duration) time.Duration {
	return max(b.Initial, wait+min(wait, b.Max-wait))
}

// jittered returns a wait minus a random part of it, but at least minWait.
func (b Backoff) jittered(wait time.Duration) time.Duration {
	return max(minWait, wait-time.Duration(rand.Float64()*b.Jitter*float64(wait)))
}

// Source is a [descriptors.Source] from an xDS server. Run must not be called concurrently.
type Source struct {
	config Config
	node   *core.Node

	loader yaml.Loader
	last   lastResponse
}

// New makes a source. It does not connect to the server.
func New(c Config) *Source {
	c.Rules.NoLines, c.Backoff = true, c.Backoff.bounded()
	c.MaxMessage = cmp.Or(c.MaxMessage, maxWritten)
	fields := make(map[string]*structpb.Value)
	for key, value := range c.Metadata {
		fields[key] = structpb.NewStringValue(value)
	}
	node := &core.Node{Id: c.Node, UserAgentName: "weir", Metadata: &structpb.Struct{Fields: fields}}
	return &Source{config: c, node: node, loader: yaml.Loader{LastGood: yaml.NewLastGood(c.Rules), OnError: c.OnError}}
}

// Run implements [descriptors.Source]. It logs the error of each stream, and never gives up.
func (s *Source) Run(ctx context.Context, apply func(*descriptors.Config) error) error {
	next := s.config.Backoff.Retry
	for {
		delivered, err := s.connect(ctx, apply)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if delivered {
			next = s.config.Backoff.Retry
		}
		wait, inForce := s.config.Backoff.jittered(next), "none yet"
		if s.loader.Loaded {
			inForce = "the last one"
		}
		s.config.Log.Warn("configuration server is away", "server", s.config.Server, "error", err,
			"configuration", inForce, "next_attempt_in", wait.Round(time.Millisecond))
		if err := pause(ctx, wait); err != nil {
			return err
		}
		next = s.config.Backoff.next(next)
	}
}

// pause waits for d, or until ctx ends, whose error it then returns.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// connect opens one stream and handles its responses until it ends. It reports whether there was a response.
func (s *Source) connect(ctx context.Context, apply func(*descriptors.Config) error) (delivered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := s.dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	for key, value := range s.config.Headers {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	from, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	return s.handleStream(ctx, from, apply)
}

const (
	// TCP keepalives detect within half a minute that the server's host is gone. HTTP/2 pings detect a server that hangs;
	// they are rare, as many servers close connections with more frequent pings than gRPC's default allows, one in five
	// minutes.
	tcpIdle, tcpInterval, tcpProbes = 15 * time.Second, 5 * time.Second, 3
	ping, pong                      = 6 * time.Minute, 20 * time.Second
)

// dial makes a connection that opens when it is first used.
func (s *Source) dial() (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	if s.config.TLS != nil {
		secure = credentials.NewTLS(s.config.TLS)
	}
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: tcpIdle, Interval: tcpInterval, Count: tcpProbes}}
	return grpc.NewClient(s.config.Server,
		grpc.WithTransportCredentials(secure),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
				return dialer.DialContext(ctx, "unix", path)
			}
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: ping, Timeout: pong}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(s.config.MaxMessage)),
		grpc.WithUserAgent("weir"))
}
