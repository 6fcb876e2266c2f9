package mapped

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves the statistics in Prometheus's text formats, with those of Go and the process.
func (m *Metrics) Handler() http.Handler {
	text := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // one bad series does not take the others away
		ErrorLog:      slog.NewLogLogger(m.config.Log.Handler(), slog.LevelWarn),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.update()
		text.ServeHTTP(w, r)
	})
}

// Port is an open port that nothing but statistics is served on.
type Port struct {
	listener net.Listener
	server   *http.Server
}

// Listen opens the port of an address, as in :9090, for the metrics under a path.
func Listen(address, path string, metrics http.Handler) (*Port, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("opening the port for Prometheus: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/"+strings.TrimPrefix(path, "/"), metrics)
	return &Port{listener, &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}}, nil
}

// Address returns the address that the port has.
func (p *Port) Address() string { return p.listener.Addr().String() }

// Serve serves until Close. Its error is why it ended before.
func (p *Port) Serve() error {
	if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close lets the scrapes that are under way end, until ctx ends, and closes the port.
func (p *Port) Close(ctx context.Context) error {
	if p.server.Shutdown(ctx) == nil {
		return nil
	}
	return p.server.Close()
}
