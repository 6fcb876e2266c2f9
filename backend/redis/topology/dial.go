package topology

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// keepAlive finds out within 45 s that the other side of an idle connection is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// dial returns a function that opens connections to a target, or to servers that are reached as it is: with TLS if the
// configuration or the URL wants it, and to a unix socket, without TLS, only if the URL names one. No server names one.
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
