package redis

import (
	"context"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// newClient makes the client of one server.
func newClient(o *goredis.Options) *goredis.Client {
	client := goredis.NewClient(o)
	client.AddHook(dials{})
	return client
}

// dials hands a dial that failed on as a connection that fails. go-redis counts the failed dials of a client for as
// long as it lives, and after as many as its pool has room for it dials once a second, whoever asks: a server that is
// back would then be found up to a second late. Whether a server is worth a dial is decided elsewhere, by what is known
// of it.
type dials struct {
	reached func(addr string) // called with the address of each connection; nil for nothing
}

// DialHook is go-redis's.
func (d dials) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return unmade{&dialError{err}}, nil
		}
		if d.reached != nil {
			d.reached(conn.RemoteAddr().String())
		}
		return conn, nil
	}
}

// ProcessHook changes nothing.
func (dials) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (dials) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// dialError is why there is no connection. go-redis unwraps what a new connection's greeting fails with, once.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// unmade is a connection that could not be made.
type unmade struct{ err *dialError }

func (u unmade) Read([]byte) (int, error)         { return 0, u.err }
func (u unmade) Write([]byte) (int, error)        { return 0, u.err }
func (u unmade) Close() error                     { return nil }
func (u unmade) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (u unmade) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (u unmade) SetDeadline(time.Time) error      { return nil }
func (u unmade) SetReadDeadline(time.Time) error  { return nil }
func (u unmade) SetWriteDeadline(time.Time) error { return nil }
