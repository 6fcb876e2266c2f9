package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/weirproxy/weir/server/connlimit"
)

// httpConnections limits the connections of each HTTP port: of probes, scrapers, browsers and clients of /json.
var httpConnections = connlimit.Limits{Total: 512, PerClient: 128}

// Port is an HTTP port: one of a [Server], or a port of its own, as of weir history serve.
type Port struct {
	listener *connlimit.Listener
	http     *http.Server
}

// OpenPort opens host:port for a handler. Errors and log lines have the name.
func OpenPort(name, address string, log *slog.Logger, h http.Handler) (*Port, error) {
	listener, err := listen(address, false)
	if err != nil {
		return nil, openingError(name, err)
	}
	return newPort(connlimit.New(listener, name, httpConnections, log), log, h), nil
}

// openingError returns the error of a port that cannot be opened. It names the environment variables of the address.
func openingError(name string, err error) error {
	variables := map[string]string{"gRPC": "GRPC_HOST and GRPC_PORT, or GRPC_UDS,", "HTTP": "HOST and PORT", "admin": "DEBUG_HOST and DEBUG_PORT"}[name]
	if variables == "" {
		return fmt.Errorf("opening the %s port: %w", name, err)
	}
	return fmt.Errorf("opening the %s port: %w (%s say where)", name, err, variables)
}

func newPort(l *connlimit.Listener, log *slog.Logger, h http.Handler) *Port {
	return &Port{l, &http.Server{Handler: nosniff(h), ReadHeaderTimeout: handshakeTimeout, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.With("port", l.Port).Handler(), slog.LevelError)}}
}

// Address returns the address that the port listens on.
func (p *Port) Address() string { return p.listener.Addr().String() }

// Run serves until ctx ends, and then lets open requests finish for at most drain.
func (p *Port) Run(ctx context.Context, drain time.Duration) error {
	failed := make(chan error, 1)
	go func() { failed <- p.serve() }()
	select {
	case err := <-failed:
		return fmt.Errorf("the %s port failed: %w", p.listener.Port, err)
	case <-ctx.Done():
	}
	drainCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return p.shutDown(drainCtx)
}

func (p *Port) serve() error { return p.http.Serve(p.listener) }

// shutDown lets open requests finish until ctx ends, then closes their connections.
func (p *Port) shutDown(ctx context.Context) error {
	if p.http.Shutdown(ctx) != nil {
		return p.http.Close()
	}
	return nil
}
