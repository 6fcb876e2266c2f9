package redis

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// options make the options of go-redis. Its own defaults would count twice, since it repeats commands whose replies it
// did not see, and would ignore a caller's deadline.
type options struct {
	pool    int
	timeout time.Duration
	dialer  *dialer
	login   *login
}

// newOptions makes the options of a configuration that has its defaults.
func newOptions(c Config) (*options, error) {
	goredis.SetLogger(libraryLog{c.Log})
	dial, err := newDialer(c.TLS, c.Timeout)
	if err != nil {
		return nil, err
	}
	l, err := newLogin(c.Auth, c.AuthFile)
	if err != nil {
		return nil, err
	}
	return &options{pool: c.PoolSize, timeout: c.Timeout, dialer: dial, login: l}, nil
}

// never is how go-redis writes "no retries" and "no pause before one": its zero means several, after 8 ms and more.
const never = -1

// protocol is RESP2. For the arrays of strings that scripts answer RESP3 has no advantage, and go-redis looks for push
// messages on it.
const protocol = 2

// client gives the options for one server.
func (o *options) client(t target) *goredis.Options {
	return &goredis.Options{
		Network:                    t.network,
		Addr:                       t.addr,
		DB:                         t.db,
		Dialer:                     o.dial(t.tls),
		CredentialsProviderContext: o.login.of(t).credentials,
		Protocol:                   protocol,

		MaxRetries:      never,
		MinRetryBackoff: never,
		MaxRetryBackoff: never,
		DialerRetries:   1, // attempts, the first included

		DialTimeout:           o.timeout,
		ReadTimeout:           o.timeout,
		WriteTimeout:          o.timeout,
		PoolTimeout:           o.timeout,
		ContextTimeoutEnabled: true,

		PoolSize:         o.pool,
		PipelinePoolSize: never, // pipelines would have a pool of their own, beside the limit

		// A new connection says HELLO and nothing else.
		DisableIdentity:          true,
		MaintNotificationsConfig: quiet(),
	}
}

// failover gives the options for a primary that sentinels name.
func (o *options) failover(primary string, sentinels []string, user, password string) *goredis.FailoverOptions {
	c := o.client(target{})
	return &goredis.FailoverOptions{
		MasterName:       primary,
		SentinelAddrs:    sentinels,
		SentinelUsername: user,
		SentinelPassword: password,

		Dialer:                     c.Dialer,
		CredentialsProviderContext: c.CredentialsProviderContext,
		Protocol:                   c.Protocol,

		MaxRetries:      c.MaxRetries,
		MinRetryBackoff: c.MinRetryBackoff,
		MaxRetryBackoff: c.MaxRetryBackoff,
		DialerRetries:   c.DialerRetries,

		DialTimeout:           c.DialTimeout,
		ReadTimeout:           c.ReadTimeout,
		WriteTimeout:          c.WriteTimeout,
		PoolTimeout:           c.PoolTimeout,
		ContextTimeoutEnabled: c.ContextTimeoutEnabled,

		PoolSize:         c.PoolSize,
		PipelinePoolSize: c.PipelinePoolSize,
		DisableIdentity:  c.DisableIdentity,
	}
}

// cluster gives the options for a cluster that some of its nodes tell about.
func (o *options) cluster(seeds []target) *goredis.ClusterOptions {
	c := o.client(seeds[0])
	addrs := make([]string, len(seeds))
	for i, s := range seeds {
		addrs[i] = s.addr
	}
	return &goredis.ClusterOptions{
		Addrs: addrs,

		Dialer:                     c.Dialer,
		CredentialsProviderContext: c.CredentialsProviderContext,
		Protocol:                   c.Protocol,

		MaxRedirects:    never, // redirects are followed, and repeats decided, where counting is understood
		MaxRetries:      c.MaxRetries,
		MinRetryBackoff: c.MinRetryBackoff,
		MaxRetryBackoff: c.MaxRetryBackoff,
		DialerRetries:   c.DialerRetries,

		DialTimeout:           c.DialTimeout,
		ReadTimeout:           c.ReadTimeout,
		WriteTimeout:          c.WriteTimeout,
		PoolTimeout:           c.PoolTimeout,
		ContextTimeoutEnabled: c.ContextTimeoutEnabled,

		PoolSize:                 c.PoolSize,
		PipelinePoolSize:         c.PipelinePoolSize,
		DisableIdentity:          c.DisableIdentity,
		MaintNotificationsConfig: quiet(),

		// Errors lead to a new map sooner; this is for a primary that died, of which nobody tells.
		ClusterStateReloadInterval: time.Second,
	}
}

// quiet keeps go-redis from asking for notifications that only a managed service sends.
func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// dial gives what opens a connection, with TLS if the configuration or the server's URL wants it. What unix sockets
// carry does not leave the machine, so it is not encrypted.
func (o *options) dial(secure bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if network != "unix" && (secure || o.dialer.files.Enabled) {
			return o.dialer.secure(ctx, network, addr)
		}
		return o.dialer.plain(ctx, network, addr)
	}
}

// libraryLog takes what go-redis would write to stderr by itself. It repeats what the errors of calls say, once for
// each dial, so it is for debugging only.
type libraryLog struct{ log *slog.Logger }

// Printf has the form that go-redis wants.
func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "go-redis", "message", fmt.Sprintf(format, args...))
	}
}
