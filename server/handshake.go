package server

import (
	"errors"
	"io"
	"log/slog"
	"net"

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
