// Package server opens, serves, drains and closes weir's ports: gRPC, HTTP and the operator's.
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

// streamWorkers is how many goroutines answer calls. They keep the stacks that they have grown; a call beyond their
// number gets a goroutine of its own, which has to grow its stack first: a fifth of a call's CPU.
const streamWorkers = 64

// handshakeTimeout bounds how long a client takes to say that it speaks HTTP/2, and the header of an HTTP request. An
// Envoy beside weir takes milliseconds; one that stalls holds a socket and the buffers of a connection.
const handshakeTimeout = 5 * time.Second

// What a connection of the gRPC port may hold: so many calls in flight, each with so many bytes of headers (as HTTP/2
// counts them) and of its message before weir reads it. They were chosen by the attacks of cmd/weir/faults; an Envoy with
// more calls in flight opens another connection. Envoy's tracers and its initial_metadata hand on what callers send, 60 KiB
// of headers, but no great number of them. A window that grew with the load would be 16 MB.
const (
	maxStreams    = 24
	maxHeaderList = 96 << 10
	streamWindow  = 64 << 10
	connWindow    = 1 << 20
	maxHeaders    = 128

	// readSize is how many bytes of a connection are read before it is another's turn.
	readSize = 16 << 10
)

// keepalivePause is how long an idle client may say nothing before it is asked whether it is there.
const keepalivePause = 2 * time.Minute

// Config says where to listen and how to end.
type Config struct {
	GRPCAddress, HTTPAddress, AdminAddress string // host:port, or unix:/path of a socket

	TLS         *tls.Config      // of the gRPC port; nil serves plaintext
	Connections connlimit.Limits // of the gRPC port
	ReusePort   bool             // let other processes of the same user open the same TCP ports, where the system can

	// DrainDelay is how long the server goes on as before after it has said that it wants no more traffic: the time
	// that clients and load balancers need to hear of it.
	DrainDelay time.Duration
	// DrainTimeout bounds the graceful stop that follows. Calls still open are then cut off.
	DrainTimeout time.Duration

	// MaxConnectionAge and its grace bound the life of a gRPC connection, so that clients spread over new replicas.
	MaxConnectionAge, MaxConnectionAgeGrace time.Duration

	Profiles           bool // serve /debug/pprof/ on the admin port
	AdminLikeRatelimit bool // see admin.Parts.LikeRatelimit

	NoJSON      string // why /json is not served, a sentence; "" serves it
	AnyJSONType bool   // take requests on /json whatever their Content-Type says

	StartLevel slog.Level // of the line that says where it listens
}

// Parts are what the server serves.
type Parts struct {
	Service  *rls.Service
	Quotas   *rlqs.Service // nil serves none
	Health   *Health
	Admin    admin.Parts              // of the admin port; Listen fills in what Health and the Config say
	Panicked func()                   // called for each panic that was caught
	Checked  func(took time.Duration) // called for each gRPC health check; nil for nobody
	Trace    Tracer                   // nil for none
	Log      *slog.Logger
}

// Tracer makes the spans of requests.
type Tracer interface {
	HTTP(http.Handler) http.Handler                            // makes those of requests to /json
	Begin(ctx context.Context, call *tap.Info) context.Context // is called for each call of the gRPC port
	End(ctx context.Context, err error)                        // is called with what Begin returned, if the call has one answer
}

// Server is the three ports and what answers on them.
type Server struct {
	config      Config
	parts       Parts
	listener    *connlimit.Listener // of the gRPC port
	grpc        *grpc.Server
	http, admin *Port
	endStreams  context.CancelFunc
}

// Listen opens all ports, so that a wrong address is known before anything runs.
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
			return nil, errOpening(port.name, err)
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
	r := recovery{p.Log, p.Panicked, p.Trace}
	transport := insecure.NewCredentials()
	if c.TLS != nil {
		transport = credentials.NewTLS(c.TLS)
	}
	g := grpc.NewServer(
		grpc.Creds(&loggedHandshake{TransportCredentials: transport, log: p.Log}),
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
	healthpb.RegisterHealthServer(g, checks{p.Health.grpc, p.Checked})
	reflection.Register(g)
	return g
}

// Listeners returns those of the ports: gRPC, HTTP and the operator's.
func (s *Server) Listeners() []*connlimit.Listener {
	return []*connlimit.Listener{s.listener, s.http.listener, s.admin.listener}
}

// Run serves until ctx ends, then drains; the end of kill cuts the drain short. If a listener fails it ends at once.
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

// drain ends the server in order: say so, wait until it is heard, let what runs finish, close.
func (s *Server) drain(kill context.Context) error {
	s.parts.Health.Drain()
	s.parts.Log.Info("draining", "delay", s.config.DrainDelay.String(), "timeout", s.config.DrainTimeout.String())
	select {
	case <-time.After(s.config.DrainDelay):
	case <-kill.Done():
	}
	bound, cancel := context.WithTimeoutCause(kill, s.config.DrainTimeout, errDrainTimeout)
	defer cancel()
	s.endStreams()
	ended := make(chan error, 1)
	go func() { ended <- s.http.shutDown(bound) }()
	stopped := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-bound.Done():
		s.parts.Log.Warn("calls that are still open are cut off", "reason", context.Cause(bound))
		s.grpc.Stop()
		<-stopped
	}
	return errors.Join(<-ended, s.admin.http.Close())
}
