package redis

import (
	"context"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Pinger asks a server whether it lives, on a connection of its own, which is made anew after a loss. It is for one
// goroutine.
type Pinger struct {
	options goredis.Options
	client  *goredis.Client // nil without a connection
}

// NewPinger makes a pinger of the server that a client leads to now.
func NewPinger(client *goredis.Client) *Pinger {
	p := &Pinger{options: *client.Options()}
	// go-redis has turned the first three into 0, which would now mean its defaults. Of two connections one is used.
	p.options.MaxRetries, p.options.MinRetryBackoff, p.options.MaxRetryBackoff = never, never, never
	p.options.PoolSize, p.options.PipelinePoolSize = 2, never
	return p
}

// Ping returns how long the server took to answer PING, which it has patience for. A connection that is not there is
// made first, for which there is as much time as greeting. An error is that of the connection, or the server's word that
// it is not ready to count; other answers are as good as PONG.
func (p *Pinger) Ping(ctx context.Context, greeting, patience time.Duration) (took time.Duration, err error) {
	if p.client == nil {
		p.options.DialTimeout = greeting
		options := p.options // go-redis keeps and changes it
		p.client = newClient(&options)
		if err := p.ask(ctx, greeting); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	err = p.ask(ctx, patience)
	return time.Since(start), err
}

// ask sends one PING.
func (p *Pinger) ask(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := p.client
	defer context.AfterFunc(ctx, func() { _ = client.Close() })() // which ends what go-redis reads
	err := p.client.Ping(ctx).Err()
	var reply goredis.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &reply), NoPrimary(err):
		p.Close()
	case !JudgeText(reply.Error()).Unready():
		return nil
	}
	return err
}

// Close ends the connection.
func (p *Pinger) Close() {
	if p.client != nil {
		_ = p.client.Close() // it was for this only
		p.client = nil
	}
}
