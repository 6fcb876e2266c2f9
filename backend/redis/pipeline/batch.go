package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
)

// Batch is the requests that a worker has out, and what it needs to send them. Workers reuse it.
type Batch struct {
	pipeline *Pipeline
	queue    *queue
	sent     time.Time
	deadline time.Time       // when the last caller leaves
	connect  context.Context // until nobody waits for a connection any more

	groups   []*group
	requests []*Request // of the groups
	retry    retry

	// Of one exchange:
	route        Route
	mode         CallMode
	live         []*Request // whose callers wait
	liveDeadline time.Time  // when the last of these leaves
	commands     []*Command
	pipe         []goredis.Cmder // commands, with what goes before them
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

// send gets an answer for each request, or none.
func (b *Batch) send() {
	p := b.pipeline
	p.totals.batches.Add(1)
	p.totals.checks.Add(uint64(len(b.requests)))
	if b.queue.meter != nil {
		for _, g := range b.groups {
			b.queue.meter.Waited(b.sent.Sub(g.joined))
		}
	}
	ctx, cancel := context.WithDeadline(b.connect, b.sent.Add(p.servers.Config.Timeout))
	defer cancel()
	b.retry.send(ctx, b.requests, b.deadline, p.stopping)
}

// exchange sends requests to one server, unless it is away or their callers have left, and notes the class of each
// reply.
func (b *Batch) exchange(ctx context.Context, route Route, requests []*Request) {
	q, err := b.pipeline.queue(route.Client) // nearly always that of the batch
	if err == nil {
		err = q.awayError()
	}
	if err != nil {
		for _, r := range requests {
			r.class, r.err = Final, err
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
	if err == nil {
		b.commands, b.pipe = b.commands[:0], b.pipe[:0]
		b.pipeline.codec.Write(b, b.live)
		execute(commandContext{ctx, b.commands[0]}, route.Client, b.pipe)
	}
	took := time.Since(start)
	best, cause := b.read(err)
	if q.meter != nil && best >= outcomeLoading {
		q.meter.Answered(took)
	}
	if best == outcomeAnswered && start.Add(took).After(b.liveDeadline) {
		best = outcomeLost // for those who asked
	}
	q.noteExchange(best, start, cmp.Or(cause, errLate))
	b.endRetries(ctx, q)
}

// dropExpired keeps the requests that are not expired as live.
func (b *Batch) dropExpired(requests []*Request) {
	now := time.Now()
	b.live, b.liveDeadline = b.live[:0], time.Time{}
	for _, r := range requests {
		if r.expired(now) {
			b.pipeline.totals.dropped.Add(1)
			r.class, r.err = Final, errLate
			continue
		}
		deadline := r.call.deadline
		if r.Counted {
			deadline = now.Add(b.pipeline.servers.Config.Timeout)
		}
		if deadline.After(b.liveDeadline) {
			b.liveDeadline = deadline
		}
		r.Command = nil
		b.live = append(b.live, r)
	}
}

// execute sends commands together, once. Each has its error.
func execute(ctx context.Context, client *goredis.Client, commands []goredis.Cmder) {
	if len(commands) == 1 {
		_ = client.Process(ctx, commands[0])
		return
	}
	pipe := client.Pipeline()
	_ = pipe.BatchProcess(ctx, commands...) // queues them; it has no way to fail
	_, _ = pipe.Exec(ctx)
}

// read notes the class of each reply, or why nothing was sent. It returns the best outcome, with its error.
func (b *Batch) read(unsent error) (best outcome, cause error) {
	for i, r := range b.live {
		if unsent != nil {
			r.class, r.err = Classify(unsent, false), unsent
		} else {
			r.class, r.err = b.pipeline.codec.Read(b, r)
		}
		if r.class.kind == classNoScript { // the call mode may change, which a probe logs
			b.pipeline.report(false)
		}
		if found := outcomeOf(r.err, r.written()); i == 0 || found > best {
			best, cause = found, r.err
		}
	}
	return best, cause
}

// endRetries ends requests that would be sent again to a server that is away, or after their time.
func (b *Batch) endRetries(ctx context.Context, q *queue) {
	away, replica := q.awayError(), false
	for _, r := range b.live {
		replica = replica || r.class.kind == classReadOnly
		switch written := r.written(); {
		case r.err == nil:
		case away != nil && !written:
			r.class, r.err = Final, away
		case away != nil && r.class.loading(), !written && ctx.Err() != nil:
			r.class = Final
		}
	}
	if away != nil && replica { // no retry would leave it
		q.disconnect()
	}
}

// done gives the caller a request's answer, or why there is none.
func (b *Batch) done(r *Request, err error) {
	if r.Counted {
		err = nil // whatever became of the rest
	}
	b.pipeline.report(err == nil)
	if _, away := err.(*backend.Away); err != nil && !away {
		from := b.queue.client
		if r.Route.Client != nil {
			from = r.Route.Client
		}
		err = fmt.Errorf("%s: %w", from.Options().Addr, err)
	}
	r.answer(err)
}
