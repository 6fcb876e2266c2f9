package pipeline

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// pinger asks a server whether it lives, on a connection of its own, which is made anew after a loss. It is for one
// goroutine.
type pinger struct {
	server *goredis.Client
	client *goredis.Client // nil without a connection
}

// ping returns how long the server took to answer PING, at most timeout. A connection that is not there is made first,
// in dialTimeout at most. An error is that of the connection, or the server's word that it is not ready to count; other
// answers are as good as PONG.
func (p *pinger) ping(ctx context.Context, dialTimeout, timeout time.Duration) (took time.Duration, err error) {
	if p.client == nil {
		p.client = topology.NewPingClient(p.server, dialTimeout)
		if err := p.send(ctx, dialTimeout); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	err = p.send(ctx, timeout)
	return time.Since(start), err
}

func (p *pinger) send(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := p.client
	defer context.AfterFunc(ctx, func() { _ = client.Close() })() // which ends what go-redis reads
	err := client.Ping(ctx).Err()
	var reply goredis.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &reply), topology.NoPrimary(err):
		p.close()
	case !ClassifyText(reply.Error()).Loading():
		return nil
	}
	return err
}

func (p *pinger) close() {
	if p.client != nil {
		_ = p.client.Close() // it was for this only
		p.client = nil
	}
}
