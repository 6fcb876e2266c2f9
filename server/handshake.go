package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"

	"google.golang.org/grpc/credentials"

	"github.com/weirproxy/weir/server/door"
)

// watchedTLS lets the door watch the connections that TLS accepts, and logs the clients that it refuses: these are told
// little by TLS, and an operator must see which lack a certificate.
type watchedTLS struct {
	credentials.TransportCredentials
	log    *slog.Logger
	logged door.Sampled
}

func (r *watchedTLS) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := r.TransportCredentials.ServerHandshake(conn)
	if err == nil {
		return door.Watch(conn, secure), info, nil
	}
	if !errors.Is(err, io.EOF) { // a probe of the port says nothing
		r.logged.Log(r.log, slog.LevelWarn, "a client of the gRPC port is refused by TLS",
			"client", conn.RemoteAddr().String(), "error", err)
	}
	return nil, nil, err
}

// httpErrors logs what an http.Server says of its own: it writes lines for connections that fail, and for panics.
type httpErrors struct {
	port   string
	log    *slog.Logger
	logged door.Sampled
}

func (e *httpErrors) Write(line []byte) (int, error) {
	e.logged.Log(e.log, slog.LevelError, "an HTTP port could not serve a connection or request", "port", e.port,
		"error", strings.TrimSpace(string(line)))
	return len(line), nil
}
