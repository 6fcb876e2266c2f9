// Package xds takes the configuration from a server that speaks Envoy's discovery protocol, as Envoy Gateway does: the
// state of the world of ratelimit.config.ratelimit.v3.RateLimitConfig, over an aggregated discovery stream (ADS).
//
// Each response is the whole configuration, a resource a domain. A resource that is wrong breaks no more than its
// domain, as [yaml.LastGood] has it for files: the others are put in force, and the response is refused with what is wrong
// in it. While the server is away or silent, what it sent last stays in force.
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

// Config says which server is asked, and as whom.
type Config struct {
	Server     string      // host:port, or any other target that gRPC knows
	TLS        *tls.Config // nil for plaintext; each connection asks it for its certificates
	Node       string      // id by which the server knows what to send
	Metadata   map[string]string
	Headers    map[string]string // that each stream begins with
	MaxMessage int               // of a response, in bytes; 0 is 64 MiB, as much as it may be as files
	Backoff    Backoff
	Rules      yaml.Options
	Log        *slog.Logger
	// OnError, if set, is called by Run for each response that was not put in force, or only in part, with the reason
	// and after apply; once for one that the server sends again and again.
	OnError func(error)
}

// Backoff is how long to wait for the next stream once one has broken. The first wait after a stream that delivered
// anything is Retry: a server that was only restarted is back soon. The next is Initial, and each further one doubles, to Max.
type Backoff struct {
	Retry, Initial, Max time.Duration
	// Jitter is the random part of a wait, from 0 to 1, so that the clients of a server do not all come back at the same
	// moment. With 0.5 a wait of 10 s takes from 5 to 10.
	Jitter float64
}

// minWait is the shortest wait: it bounds the load on a server that breaks each stream.
const minWait = 100 * time.Millisecond

// bounded returns b with a Max that is no less than its other waits, and a Jitter from 0 to 1.
func (b Backoff) bounded() Backoff {
	b.Max = max(b.Max, b.Initial, b.Retry)
	if b.Jitter = min(b.Jitter, 1); !(b.Jitter > 0) { // or not a number
		b.Jitter = 0
	}
	return b
}

// next returns the wait that follows another one: twice as long, from Initial to Max.
func (b Backoff) next(wait time.Duration) time.Duration {
	return max(b.Initial, wait+min(wait, b.Max-wait))
}

// jittered returns a wait less a random part of it, but at least minWait.
func (b Backoff) jittered(wait time.Duration) time.Duration {
	return max(minWait, wait-time.Duration(rand.Float64()*b.Jitter*float64(wait)))
}

// Source is a configuration server. One [Source.Run] at a time may use it.
type Source struct {
	config Config
	node   *core.Node

	loader yaml.Loader
	last   lastResponse
}

// New makes a source of a server. It connects to nothing yet.
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

// Run implements [descriptors.Source]. It never gives up: what breaks a stream is logged.
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

// pause waits. Its error is ctx's, whose end ends the wait.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// connect follows one stream until it breaks. It reports whether there was a response.
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
	return s.follow(ctx, from, apply)
}

const (
	// A server whose machine is gone is noticed after half a minute, by TCP: many servers end connections whose HTTP/2
	// pings come more often than gRPC's default allows, which is every five minutes. These find one that hangs.
	tcpIdle, tcpInterval, tcpProbes = 15 * time.Second, 5 * time.Second, 3
	ping, pong                      = 6 * time.Minute, 20 * time.Second
)

// dial makes a connection that is opened when it is first used, once.
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
