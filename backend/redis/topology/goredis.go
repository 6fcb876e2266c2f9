package topology

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The behaviors of go-redis that weir works around, each with the test that fails without the workaround:
//
//   - It repeats commands whose replies it did not see, and follows redirects, which counts twice: shared turns that off
//     (TestGoRedisRepeatsNothingOnAnyTopology). It turns the -1 for "no retries" into 0, which means the default if the
//     options are used again: newNode and NewPingClient write -1 again. NoRetry of pipeline.Command stops it for any client
//     (pipeline TestGoRedisNeverRepeatsCountingCommands).
//   - It abandons a new connection when its first caller leaves: pipeline's commandContext allows it the timeout of Config,
//     and Args of pipeline.Command notes whether the command was written (TestSlowGreetingStillYieldsAConnection).
//   - After some failed dials it dials once a second: dialHook (TestNobodyWaitsForAnUnavailableServer).
//   - It allocates as much as a reply announces: replies.go (TestDamagedReplyEndsTheConnectionCheaply).
//   - It panics on malformed replies of sentinels, in goroutines where no caller can recover, and dials all sentinels that they
//     name: sentinels.go (TestUnexpectedSentinelRepliesAreNotRead).
//   - It makes a client for every node that a map of slots names: cluster.validate (TestOversizedClusterMapIsRefused). It
//     takes an address that begins with a slash for a path: dial (TestServersCannotNameSocketPaths).
//   - Its cluster client waits for the map of slots: Owner of cluster asks for it in the background
//     (TestNobodyWaitsForAnUnavailableServer). It closes the clients of nodes that have left: Closed
//     (TestClusterReachesUnmappedNodes).
//   - It keeps connections to a server that has become a replica: Disconnect
//     (TestDemotedPrimaryIsLeftAtOnce).

// options makes the options of go-redis.
type options struct {
	Config
	login  *login
	losses *atomic.Uint64
}

// newOptions makes the options of a configuration that has its defaults.
func newOptions(c Config, losses *atomic.Uint64) (*options, error) {
	goredis.SetLogger(noLog{})
	l, err := newLogin(c.Auth, c.AuthFile)
	if err != nil {
		return nil, err
	}
	return &options{Config: c, login: l, losses: losses}, nil
}

// disabled is how go-redis writes "no retries" and "no pause before one": its zero means several, after 8 ms and more.
const disabled = -1

// protocol is RESP2: for arrays of strings RESP3 has no advantage, and makes go-redis look for push messages.
const protocol = 2

// shared returns the options that all kinds of clients have, with the credentials, TLS setting and database of a
// target.
func (o *options) shared(like target, addrs ...string) *goredis.UniversalOptions {
	return &goredis.UniversalOptions{
		Addrs:                      addrs,
		DB:                         like.db,
		Dialer:                     o.dial(like),
		CredentialsProviderContext: o.login.forTarget(like).credentials,
		Protocol:                   protocol,

		MaxRedirects:    disabled, // package pipeline follows redirects and decides about retries
		MaxRetries:      disabled,
		MinRetryBackoff: disabled,
		MaxRetryBackoff: disabled,
		DialerRetries:   1, // attempts, the first included

		DialTimeout:           o.Timeout,
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		PoolTimeout:           o.Timeout,
		ContextTimeoutEnabled: true,

		PoolSize:         o.PoolSize,
		PipelinePoolSize: disabled, // pipelines would have another pool, beyond the limit

		// A new connection sends HELLO and nothing else: only managed services send notifications.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// client returns the options for one server.
func (o *options) client(t target) *goredis.Options {
	c := o.shared(t, t.addr).Simple()
	c.Network = t.network
	return c
}

// failover returns the options for a primary that sentinels name.
func (o *options) failover(primary string, sentinels []string, user, password string) *goredis.FailoverOptions {
	c := o.shared(target{}, sentinels...).Failover()
	c.MasterName, c.SentinelUsername, c.SentinelPassword = primary, user, password
	return c
}

// cluster returns the options for a cluster with these seed nodes.
func (o *options) cluster(seeds []target) *goredis.ClusterOptions {
	addrs := make([]string, len(seeds))
	for i, s := range seeds {
		addrs[i] = s.addr
	}
	c := o.shared(seeds[0], addrs...).Cluster()
	// After an error the map is read sooner; this finds a primary that died while no command failed.
	c.ClusterStateReloadInterval = time.Second
	return c
}

// noLog drops the log of go-redis, which repeats the errors that calls return.
type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// newClient makes the client of one server.
func newClient(o *goredis.Options) *goredis.Client {
	client := goredis.NewClient(o)
	client.AddHook(dialHook{})
	return client
}

// dialHook turns a failed dial into a connection whose reads and writes fail. After as many failed dials as its pool
// has room for, go-redis dials only once a second, and would notice late that a server is back. The breaker of package
// outbound decides whether a server is dialed.
type dialHook struct {
	reached func(addr string) // called with the address of each connection; nil for nothing
}

// DialHook implements go-redis's hook.
func (d dialHook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return failedConn{&dialError{err}}, nil
		}
		if s, ok := conn.(*sentinelConn); ok {
			conn = s.Conn // it leads to the primary
		}
		if d.reached != nil {
			d.reached(conn.RemoteAddr().String())
		}
		return conn, nil
	}
}

// ProcessHook changes nothing.
func (dialHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (dialHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// dialError is why there is no connection. It wraps the error, as go-redis unwraps a failed HELLO's error once.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// failedConn is a connection that could not be opened.
type failedConn struct{ err *dialError }

func (c failedConn) Read([]byte) (int, error)         { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)        { return 0, c.err }
func (c failedConn) Close() error                     { return nil }
func (c failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c failedConn) SetDeadline(time.Time) error      { return nil }
func (c failedConn) SetReadDeadline(time.Time) error  { return nil }
func (c failedConn) SetWriteDeadline(time.Time) error { return nil }

// Closed reports whether a client is closed. go-redis closes a client a minute after its node has left the cluster.
// Ping checks that before it checks the context, so nothing is sent.
func Closed(client *goredis.Client) bool {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	return errors.Is(client.Ping(gone).Err(), goredis.ErrClosed)
}

// Disconnect closes idle connections to a replica, as new ones may lead to the primary. go-redis would close one at
// most.
func Disconnect(ctx context.Context, client *goredis.Client) {
	for range client.PoolStats().IdleConns {
		conn := client.EphemeralConn()
		err := conn.Ping(ctx).Err() // uses the connection
		_ = conn.Close()
		if err != nil {
			return
		}
	}
}

// NewPingClient makes another client of the same server as client's, for one connection.
func NewPingClient(client *goredis.Client, dialTimeout time.Duration) *goredis.Client {
	o := *client.Options()
	o.DialTimeout = dialTimeout
	o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = disabled, disabled, disabled
	o.PoolSize, o.PipelinePoolSize = 2, disabled // one of them is used
	return newClient(&o)
}

// keepAlive detects within 45 s that the other side of an idle connection is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// dial returns a function that opens connections to a target, or to other servers with the target's settings. It uses
// TLS if the configuration or the URL wants it. It opens a unix socket, without TLS, only if the URL names one, never
// because a server names a path.
func (o *options) dial(like target) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain, network := &net.Dialer{Timeout: o.Timeout, KeepAliveConfig: keepAlive}, cmp.Or(like.network, "tcp")
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if network == "unix" || !like.tls && !o.TLS {
			return o.Connections.count(plain.DialContext(ctx, network, addr))
		}
		secure := tls.Dialer{NetDialer: plain, Config: o.TLSConfig()} // the timeout is that of both
		conn, err := secure.DialContext(ctx, network, addr)
		if err != nil {
			err = fmt.Errorf("redis: TLS to %s: %w", addr, err)
		}
		return o.Connections.count(conn, err)
	}
}
