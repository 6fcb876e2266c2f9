// Package server opens, serves, drains and closes weir's ports: gRPC, HTTP and admin.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/tap"

	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/connlimit"
	"github.com/weirproxy/weir/server/rlqs"
	"github.com/weirproxy/weir/server/rls"
)

// streamWorkers is how many goroutines answer calls and keep their grown stacks. Further calls get a new goroutine,
// which must grow its stack first: a fifth of a call's CPU.
const streamWorkers = 64

// handshakeTimeout bounds the TLS and HTTP/2 handshake of a client, and reading the header of an HTTP request. Envoy
// takes milliseconds; a client that stalls holds a socket and the buffers of a connection.
const handshakeTimeout = 5 * time.Second

// Limits of a connection to the gRPC port: calls in flight and, for each call, bytes of headers (as HTTP/2 counts them),
// bytes of its message before weir reads it, and the number of headers. cmd/weir/faults has the attacks that they
// withstand. An Envoy with more calls in flight opens another connection. Envoy's tracers and initial_metadata pass on
// few headers of the caller, but up to 60 KiB. The windows are static, because grpc-go's dynamic ones may grow to 16 MB.
const (
	maxStreams    = 24
	maxHeaderList = 96 << 10
	streamWindow  = 64 << 10
	connWindow    = 1 << 20
	maxHeaders    = 128

	// readSize is the size of a connection's read buffer: weir reads no more before it serves other connections.
	readSize = 16 << 10
)

// keepalivePause is how long a client may be idle before it is pinged.
const keepalivePause = 2 * time.Minute

// Config has the addresses, limits and timeouts of a server.
type Config struct {
	GRPCAddress, HTTPAddress, AdminAddress string // host:port, or unix:/path of a socket

	TLS         *tls.Config      // of the gRPC port; nil serves plaintext
	Connections connlimit.Limits // of the gRPC port
	ReusePort   bool             // also other processes of the same user may open the TCP ports, where the system allows that

	// DrainDelay is how long the server keeps serving after it reports that it is not ready: the time that clients and
	// load balancers need to notice.
	DrainDelay time.Duration
	// DrainTimeout bounds the graceful stop that follows. Calls that are open then are cancelled.
	DrainTimeout time.Duration

	// MaxConnectionAge and MaxConnectionAgeGrace bound the life of a gRPC connection, so that clients spread over new replicas.
	MaxConnectionAge, MaxConnectionAgeGrace time.Duration

	Profiles           bool // serve /debug/pprof/ on the admin port
	AdminLikeRatelimit bool // see admin.Parts.LikeRatelimit

	NoJSON      string // the error message that /json answers because it is off; "" serves /json
	AnyJSONType bool   // accept any Content-Type on /json

	StartLevel slog.Level // of the log line "listening"
}

// Parts are the services and handlers of the ports.
type Parts struct {
	Service       *rls.Service
	Quotas        *rlqs.Service // nil serves none
	Health        *Health
	Admin         admin.Parts              // Listen sets its Ready, LikeRatelimit and Profiles
	OnPanic       func()                   // called for each recovered panic
	OnHealthCheck func(took time.Duration) // called for each gRPC health check; may be nil
	Trace         Tracer                   // nil for none
	Log           *slog.Logger
}

// Tracer makes the spans of requests.
type Tracer interface {
	HTTP(http.Handler) http.Handler                            // adds spans to requests to /json
	Begin(ctx context.Context, call *tap.Info) context.Context // called at the begin of each gRPC call
	End(ctx context.Context, err error)                        // called at the end of each unary call, with the context from Begin
}

// Server has the three ports and their handlers.
type Server struct {
	config      Config
	parts       Parts
	listener    *connlimit.Listener // of the gRPC port
	grpc        *grpc.Server
	http, admin *Port
	endStreams  context.CancelFunc
}

// Listen opens all ports, so that a wrong address fails before anything runs.
func Listen(c Config, p Parts) (*Server, error) {
	s := &Server{config: c, parts: p}
	var listeners []*connlimit.Listener
	for _, port := range []struct {
		name, address string
		connections   connlimit.Limits
	}{
		{"gRPC", c.GRPCAddress, c.Connections},
		{"HTTP", c.HTTPAddress, httpConnections},
		{"admin", c.AdminAddress, httpConnections},
	} {
		lis, err := listen(port.address, c.ReusePort)
		if err != nil {
			for _, opened := range listeners {
				_ = opened.Close() // the error that matters is the one that led here
			}
			return nil, openingError(port.name, err)
		}
		listeners = append(listeners, connlimit.New(lis, strings.ToLower(port.name), port.connections, p.Log))
	}
	var streams context.Context
	streams, s.endStreams = context.WithCancel(context.Background())
	s.listener, s.grpc = listeners[0], newGRPC(c, p, streams)
	s.http = newPort(listeners[1], p.Log, httpHandler(c, p))
	p.Admin.Ready, p.Admin.LikeRatelimit, p.Admin.Profiles = p.Health.Ready, c.AdminLikeRatelimit, c.Profiles
	s.admin = newPort(listeners[2], p.Log, admin.Handler(p.Admin))
	return s, nil
}

func newGRPC(c Config, p Parts, streams context.Context) *grpc.Server {
	r := recovery{p.Log, p.OnPanic, p.Trace}
	transport := insecure.NewCredentials()
	if c.TLS != nil {
		transport = credentials.NewTLS(c.TLS)
	}
	g := grpc.NewServer(
		grpc.Creds(&handshakeLogger{TransportCredentials: transport, log: p.Log}),
		grpc.ForceServerCodecV2(rls.NewCodec()),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.InTapHandle(boundHeaders(p.Trace)),
		grpc.MaxRecvMsgSize(rls.MaxMessage),
		grpc.ReadBufferSize(readSize),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepalivePause, MaxConnectionAge: c.MaxConnectionAge,
			MaxConnectionAgeGrace: c.MaxConnectionAgeGrace}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(r.unary),
		grpc.ChainStreamInterceptor(r.stream, boundReflection(), endStreamsWith(streams)),
	)
	p.Service.Register(g)
	if p.Quotas != nil {
		p.Quotas.Register(g)
	}
	healthpb.RegisterHealthServer(g, healthServer{p.Health.grpc, p.OnHealthCheck})
	reflection.Register(g)
	return g
}

// Listeners returns the listeners of the ports: gRPC, HTTP and admin.
func (s *Server) Listeners() []*connlimit.Listener {
	return []*connlimit.Listener{s.listener, s.http.listener, s.admin.listener}
}

// Run serves until ctx ends, then drains; kill ends the drain early. It returns at once if a listener fails.
func (s *Server) Run(ctx, kill context.Context) error {
	failed := make(chan error, 3)
	go func() { failed <- s.grpc.Serve(s.listener) }()
	go func() { failed <- s.http.serve() }()
	go func() { failed <- s.admin.serve() }()
	s.parts.Log.Log(ctx, s.config.StartLevel, "listening",
		"grpc", s.listener.Addr().String(), "http", s.http.Address(), "admin", s.admin.Address())
	select {
	case err := <-failed:
		s.grpc.Stop()
		return errors.Join(fmt.Errorf("a listener failed: %w", err), s.http.http.Close(), s.admin.http.Close())
	case <-ctx.Done():
	}
	return s.drain(kill)
}

// drain ends the server: it reports not ready, waits until clients have noticed, lets open calls finish, and closes.
func (s *Server) drain(kill context.Context) error {
	s.parts.Health.Drain()
	s.parts.Log.Info("draining", "delay", s.config.DrainDelay.String(), "timeout", s.config.DrainTimeout.String())
	select {
	case <-time.After(s.config.DrainDelay):
	case <-kill.Done():
	}
	drainCtx, cancel := context.WithTimeoutCause(kill, s.config.DrainTimeout, errDrainTimeout)
	defer cancel()
	s.endStreams()
	ended := make(chan error, 1)
	go func() { ended <- s.http.shutDown(drainCtx) }()
	stopped := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-drainCtx.Done():
		s.parts.Log.Warn("open calls are cancelled", "reason", context.Cause(drainCtx))
		s.grpc.Stop()
		<-stopped
	}
	return errors.Join(<-ended, s.admin.http.Close())
}
