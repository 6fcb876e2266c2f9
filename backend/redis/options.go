package redis

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// options makes the options of go-redis. Its own defaults would count twice, since it repeats commands whose replies it
// did not see, and would ignore a caller's deadline.
type options struct {
	Config
	dialer *dialer
	login  *login
	losses *losses
}

// newOptions makes the options of a configuration that has its defaults.
func newOptions(c Config, losses *losses) (*options, error) {
	goredis.SetLogger(libraryLog{c.Log})
	dial, err := newDialer(c.TLS, c.Timeout)
	if err != nil {
		return nil, err
	}
	dial.opened = c.Connections
	l, err := newLogin(c.Auth, c.AuthFile)
	if err != nil {
		return nil, err
	}
	return &options{Config: c, dialer: dial, login: l, losses: losses}, nil
}

// never is how go-redis writes "no retries" and "no pause before one": its zero means several, after 8 ms and more.
const never = -1

// protocol is RESP2. For the arrays of strings that scripts answer RESP3 has no advantage, and go-redis looks for push
// messages on it.
const protocol = 2

// shared returns what all kinds of clients have in common, for servers that are reached as one of them is.
func (o *options) shared(like target, addrs ...string) *goredis.UniversalOptions {
	return &goredis.UniversalOptions{
		Addrs:                      addrs,
		DB:                         like.db,
		Dialer:                     o.dialer.dial(like.tls),
		CredentialsProviderContext: o.login.of(like).credentials,
		Protocol:                   protocol,

		MaxRedirects:    never, // redirects are followed, and repeats decided, where counting is understood
		MaxRetries:      never,
		MinRetryBackoff: never,
		MaxRetryBackoff: never,
		DialerRetries:   1, // attempts, the first included

		DialTimeout:           o.Timeout,
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		PoolTimeout:           o.Timeout,
		ContextTimeoutEnabled: true,

		PoolSize:         o.PoolSize,
		PipelinePoolSize: never, // pipelines would have a pool of their own, beside the limit

		// A new connection says HELLO and nothing else: only a managed service sends notifications.
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

// cluster returns the options for a cluster of which some nodes are known.
func (o *options) cluster(seeds []target) *goredis.ClusterOptions {
	addrs := make([]string, len(seeds))
	for i, s := range seeds {
		addrs[i] = s.addr
	}
	c := o.shared(seeds[0], addrs...).Cluster()
	// Errors lead to a new map sooner; this is for a primary that died without any error to show it.
	c.ClusterStateReloadInterval = time.Second
	return c
}

// libraryLog receives what go-redis would write to stderr by itself. It repeats what the errors of calls say, once for
// each dial, so it is for debugging only.
type libraryLog struct{ log *slog.Logger }

// Printf has the form that go-redis wants.
func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "go-redis", "message", fmt.Sprintf(format, args...))
	}
}
