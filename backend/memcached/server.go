package memcached

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
)

// statsInterval is how often the statistics of a server are read.
const statsInterval = 10 * time.Second

var errRemoved = errors.New("the SRV record no longer names this server")

// server is one memcached server.
type server struct {
	*outbound.Server[check]
	store  *Store
	id     uint64      // hash of its name, for rendezvous hashing
	everUp atomic.Bool // it could count at least once

	lastStats map[string]uint64 // only ping uses it and evicting
	evicting  bool              // there were evictions between the last two reads
}

// open opens the queues of a server, and pings it.
func (s *Store) open(name string) *server {
	srv := &server{store: s, id: idOf(name)}
	srv.Server = s.engine.Open(name, srv, s.config.Connections, 1)
	for _, q := range srv.Queues {
		q.PeerState = &exchange{server: srv}
	}
	srv.Server.Ping()
	return srv
}

// outcomeOf returns the outcome of an exchange that ended with err.
func outcomeOf(err error) outbound.Outcome {
	var op *net.OpError
	switch {
	case err == nil:
		return outbound.Answered
	case isRefusal(err):
		return outbound.Refused
	case errors.As(err, &op) && op.Op == "dial" && !op.Timeout(): // nothing listens there
		return outbound.Unreachable
	}
	return outbound.Lost
}

// Changed logs that the server is away or back.
func (srv *server) Changed(_, after outbound.State, why error) {
	switch {
	case after == outbound.HalfOpen:
		srv.log().Warn("memcached server answers again")
		srv.noteUp()
	case after == outbound.Closed:
	case isRefusal(why):
		srv.log().Warn("memcached server cannot count", "error", why)
	default:
		srv.log().Warn("memcached server does not answer", "error", why)
	}
}

// noteUp records that the server can count.
func (srv *server) noteUp() {
	if !srv.everUp.Swap(true) {
		srv.log().Info("memcached is ready")
		srv.store.setReady()
	}
}

// Pings returns ping, which makes a new connection each time.
func (srv *server) Pings() (ping func(context.Context) (outbound.Outcome, error), end func()) {
	return srv.ping, func() {}
}

// ping reads the server's statistics.
func (srv *server) ping(ctx context.Context) (outbound.Outcome, error) {
	var all map[string]uint64
	err := srv.withConn(ctx, outbound.PingTimeout, func(c *conn) (err error) {
		all, err = c.statistics()
		return err
	})
	if err == nil {
		srv.noteStats(all)
		if srv.Away() == nil { // else Changed calls noteUp when the server no longer refuses checks
			srv.noteUp()
		}
		srv.store.engine.Broadcast()
	}
	return outcomeOf(err), err
}

// withConn runs do on a new connection. Connecting and do together have the timeout.
func (srv *server) withConn(ctx context.Context, timeout time.Duration, do func(c *conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := srv.dial(ctx, timeout)
	if err != nil {
		return err
	}
	defer c.close()
	if err = do(c); ctx.Err() != nil { // the end of ctx has closed the connection
		return ctx.Err()
	}
	return err
}

// noteStats counts and logs evictions, restarts and flushes since the last statistics.
func (srv *server) noteStats(now map[string]uint64) {
	before := srv.lastStats
	if srv.lastStats = now; before == nil {
		return
	}
	evicted := now["evictions"]
	if evicted >= before["evictions"] { // else the statistics were reset
		evicted -= before["evictions"]
	}
	if now["pid"] != before["pid"] || now["uptime"] < before["uptime"] {
		evicted = now["evictions"]
		srv.store.restarts.Add(1)
		srv.log().Warn("memcached server restarted", "effect", "its counts are lost")
	} else if now["cmd_flush"] > before["cmd_flush"] {
		srv.store.restarts.Add(1)
		srv.log().Warn("memcached server flushed", "effect", "its counts are lost")
	}
	if evicted > 0 && !srv.evicting {
		srv.log().Warn("memcached server evicted counts that were alive", "evictions", evicted,
			"remedy", "give it more memory (-m), or use a server that serves nothing else")
	}
	srv.evicting = evicted > 0
	srv.store.evictions.Add(evicted)
}

// state returns the server's state for operators.
func (srv *server) state() backend.ServerState {
	switch away := srv.Away(); {
	case backend.ReasonOf(away) == backend.Refused:
		return backend.ServerFailing
	case away != nil, !srv.everUp.Load():
		return backend.ServerAway
	}
	return backend.ServerUp
}

// log returns the logger for lines about the server.
func (srv *server) log() *slog.Logger { return srv.store.config.Log.With("server", srv.Name) }
