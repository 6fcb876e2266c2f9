package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weirproxy/weir/server/door"
)

// Port is an operator's port without a server that limits beside it.
type Port struct {
	name     string
	listener net.Listener
	http     *http.Server
}

// OpenPort opens host:port for a handler. Errors and the log call it by its name.
func OpenPort(name, address string, log *slog.Logger, h http.Handler) (*Port, error) {
	listener, err := listen(address, false)
	if err != nil {
		return nil, fmt.Errorf("opening the %s port: %w", name, err)
	}
	guarded := door.New(listener, name, httpConnections, "none", log)
	return &Port{name, guarded, newHTTP(guarded, log, h)}, nil
}

// Address returns where it listens.
func (p *Port) Address() string { return p.listener.Addr().String() }

// Run serves until ctx ends, and then lets what is being answered finish for so long.
func (p *Port) Run(ctx context.Context, drain time.Duration) error {
	failed := make(chan error, 1)
	go func() { failed <- p.http.Serve(p.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("the %s port failed: %w", p.name, err)
	case <-ctx.Done():
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if p.http.Shutdown(bound) != nil {
		return p.http.Close() // what is open is cut off
	}
	return nil
}
