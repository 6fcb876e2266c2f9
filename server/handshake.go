package server

import (
	"errors"
	"io"
	"log/slog"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/weirproxy/weir/server/connlimit"
)

// handshakeLogger logs failed TLS handshakes: a client learns little from TLS, so the operator must see which clients
// lack a certificate.
type handshakeLogger struct {
	credentials.TransportCredentials
	log     *slog.Logger
	sampler connlimit.LogSampler
}

func (h *handshakeLogger) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := h.TransportCredentials.ServerHandshake(conn)
	if err != nil && !errors.Is(err, io.EOF) { // a probe of the port connects and sends nothing
		h.sampler.Log(h.log, slog.LevelWarn, "TLS handshake failed",
			"client", conn.RemoteAddr().String(), "error", err)
	}
	return secure, info, err
}
