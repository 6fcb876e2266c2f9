package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// startTimeout is how long a server may take until it serves.
const startTimeout = time.Minute

// server is what the load is sent to.
type server struct {
	name  string
	addr  string
	pid   int    // 0 if unknown: then so are its CPU and memory
	child *child // nil if the bench did not start it
	conns []*grpc.ClientConn
	store *store // what weir counts in; nil unless the bench started it
}

// connect opens the server's connections and returns it when it has said on each of them that it serves. If it does
// not come to that, it is closed.
func connect(ctx context.Context, s *server, connections int) (*server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for range connections {
		conn, err := dial(s.addr)
		if err == nil {
			s.conns = append(s.conns, conn)
			err = s.awaitServing(ctx, conn)
		}
		if err != nil {
			s.close()
			return nil, fmt.Errorf("%s at %s: %w", s.name, s.addr, err)
		}
	}
	return s, nil
}

// dial makes a connection of its own; one to a server that is only just starting is tried again soon.
func dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
}

// awaitServing asks for the server's health until it is SERVING. A server without a health service passes.
func (s *server) awaitServing(ctx context.Context, conn *grpc.ClientConn) error {
	var ended chan struct{}
	if s.child != nil {
		ended = s.child.done
	}
	for {
		answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		if answer.GetStatus() == healthpb.HealthCheckResponse_SERVING || status.Code(err) == codes.Unimplemented {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("it ended before it served (%v):\n%s", s.child.err, s.child.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("it does not serve, health %s: %w", answer.GetStatus(), errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// cpu returns the processor time that the server has used so far, 0 if its process is unknown.
func (s *server) cpu() (time.Duration, error) {
	if s.pid == 0 {
		return 0, nil
	}
	return cpuTime(s.pid)
}

// resident returns the server's memory in bytes, 0 if its process is unknown.
func (s *server) resident() (int64, error) {
	if s.pid == 0 {
		return 0, nil
	}
	return residentBytes(s.pid)
}

// close drops the connections and stops the server if it is a child.
func (s *server) close() {
	for _, conn := range s.conns {
		_ = conn.Close() // it fails only when closed twice
	}
	if s.child != nil {
		s.child.end()
	}
}
