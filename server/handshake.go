package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// refusalGap is how long the log has no other line about a client that TLS refused.
const refusalGap = 10 * time.Second

// refusals logs which clients TLS refuses: they are told little, and whoever asks clients for certificates has to see
// whom that keeps out.
type refusals struct {
	credentials.TransportCredentials
	log *slog.Logger

	mu     sync.Mutex // protects what follows
	told   time.Time  // when the last line was logged
	untold int        // refused since then
}

// ServerHandshake is grpc's.
func (r *refusals) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := r.TransportCredentials.ServerHandshake(conn)
	if err != nil && !errors.Is(err, io.EOF) { // a probe of the port says nothing
		r.tell(conn.RemoteAddr().String(), err, time.Now())
	}
	return secure, info, err
}

// tell logs that a client was refused, or counts it for the next line.
func (r *refusals) tell(client string, why error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.told.IsZero() && now.Sub(r.told) < refusalGap {
		r.untold++
		return
	}
	r.log.Warn("a client of the gRPC port is refused by TLS", "client", client, "error", why, "others_since", r.untold)
	r.told, r.untold = now, 0
}
