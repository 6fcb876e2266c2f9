package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
)

// Batch is the pipeline's state of an outbound.Batch, and is reused with it.
type Batch struct {
	pipeline *Pipeline
	peer     *peer // of the queue
	retry    retry

	// The state of one exchange:
	route        Route
	mode         CallMode
	live         []*Request // whose callers wait
	liveDeadline time.Time  // when the last of these leaves
	commands     []*Command
	pipe         []goredis.Cmder // commands, each after its ASKING if the route needs one
	pool         []*Command
}

func newBatch(p *Pipeline) *Batch {
	b := &Batch{pipeline: p}
	b.retry = retry{servers: p.servers, transport: b, script: p.script, maxTries: maxTries}
	return b
}

// Client returns the client of the server that the batch is sent to.
func (b *Batch) Client() *goredis.Client { return b.route.Client }

// Command adds a command to the batch.
func (b *Batch) Command(args ...any) *Command {
	n := len(b.commands)
	if n == len(b.pool) {
		b.pool = append(b.pool, newCommand())
	}
	c := b.pool[n]
	c.reset(b.liveDeadline, args...)
	if b.commands = append(b.commands, c); b.route.Asking {
		b.pipe = append(b.pipe, goredis.NewStatusCmd(context.Background(), "asking"))
	}
	b.pipe = append(b.pipe, c)
	return c
}

// Exchange sends the requests of a batch, and answers each.
func (p *peer) Exchange(out *outbound.Batch[RequestState]) {
	if out.PeerState == nil {
		out.PeerState = newBatch(p.pipeline)
	}
	b := out.PeerState.(*Batch)
	b.peer = p
	if p.meter != nil {
		for _, joined := range out.Joined {
			p.meter.Waited(out.Sent.Sub(joined))
		}
	}
	for _, r := range out.Requests {
		r.State.Route = Route{Client: p.client}
	}
	ctx, cancel := context.WithDeadline(out.UntilAway, out.Sent.Add(p.pipeline.servers.Config.Timeout))
	defer cancel()
	b.retry.send(ctx, out.Requests, out.Deadline, p.pipeline.stopping)
}

// exchange sends requests to one server, and notes the class of each reply. It sends nothing to a server that is away,
// and no request whose caller has left.
func (b *Batch) exchange(ctx context.Context, route Route, requests []*Request) {
	p, err := b.pipeline.peer(route.Client) // nearly always b.peer
	if err == nil {
		err = p.server.Away()
	}
	if err != nil {
		for _, r := range requests {
			r.State.class, r.State.err = Final, err
		}
		return
	}
	start := time.Now()
	b.route = route
	if b.pipeline.script != nil {
		b.mode, err = b.pipeline.script.Mode(ctx, route.Client)
	}
	if b.dropExpired(requests); len(b.live) == 0 {
		return
	}
	end := p.server.Trace(b.live)
	if err == nil {
		b.commands, b.pipe = b.commands[:0], b.pipe[:0]
		b.pipeline.codec.Write(b, b.live)
		execute(commandContext{ctx, b.commands[0]}, route.Client, b.pipe)
	}
	took := time.Since(start)
	best, cause := b.read(err)
	if p.meter != nil && best >= outbound.Loading {
		p.meter.Answered(took)
	}
	if best == outbound.Answered && start.Add(took).After(b.liveDeadline) {
		best = outbound.Lost // all callers have left
	}
	p.server.Note(best, start, cmp.Or(cause, outbound.ErrLate))
	end(best.String(), cause)
	b.endRetries(ctx, p)
}

// dropExpired ends expired requests, and makes the others live.
func (b *Batch) dropExpired(requests []*Request) {
	now := time.Now()
	b.live, b.liveDeadline = b.live[:0], time.Time{}
	for _, r := range requests {
		if !r.State.Counted && r.Expired(now) {
			b.pipeline.engine.Dropped.Add(1)
			r.State.class, r.State.err = Final, outbound.ErrLate
			continue
		}
		deadline := r.Deadline()
		if r.State.Counted {
			deadline = now.Add(b.pipeline.servers.Config.Timeout)
		}
		if deadline.After(b.liveDeadline) {
			b.liveDeadline = deadline
		}
		r.State.Command = nil
		b.live = append(b.live, r)
	}
}

// execute sends commands together, once. Each command holds its own error.
func execute(ctx context.Context, client *goredis.Client, commands []goredis.Cmder) {
	if len(commands) == 1 {
		_ = client.Process(ctx, commands[0])
		return
	}
	pipe := client.Pipeline()
	_ = pipe.BatchProcess(ctx, commands...) // only queues them, so it cannot fail
	_, _ = pipe.Exec(ctx)
}

// read notes the class of each reply; unsent, if not nil, is why nothing was sent. It returns the best
// outbound.Outcome, with its error.
func (b *Batch) read(unsent error) (best outbound.Outcome, cause error) {
	for i, r := range b.live {
		if unsent != nil {
			r.State.class, r.State.err = Classify(unsent, false), unsent
		} else {
			r.State.class, r.State.err = b.pipeline.codec.Read(b, r)
		}
		if r.State.class.kind == classNoScript { // the call mode may change, which a probe logs
			b.pipeline.health.report(false)
		}
		if found := Classify(r.State.err, r.State.written()).Outcome; i == 0 || found > best {
			best, cause = found, r.State.err
		}
	}
	return best, cause
}

// endRetries makes the requests final that must not be sent again, as their server is away or their time is over.
func (b *Batch) endRetries(ctx context.Context, p *peer) {
	away, replica := p.server.Away(), false
	for _, r := range b.live {
		replica = replica || r.State.class.kind == classReadOnly
		switch written := r.State.written(); {
		case r.State.err == nil:
		case away != nil && !written:
			r.State.class, r.State.err = Final, away
		case away != nil && r.State.class.notReady(), !written && ctx.Err() != nil:
			r.State.class = Final
		}
	}
	if away != nil && replica { // without retries, nothing else would close its connections
		p.disconnect()
	}
}

// done answers a request, or fails it with err.
func (b *Batch) done(r *Request, err error) {
	if r.State.Counted {
		err = nil // even if EXPIRE or a correction failed
	}
	b.pipeline.health.report(err == nil)
	if _, away := err.(*backend.UnavailableError); err != nil && !away {
		from := b.peer.client
		if r.State.Route.Client != nil {
			from = r.State.Route.Client
		}
		err = fmt.Errorf("%s: %w", from.Options().Addr, err)
	}
	r.Answer(err)
}
