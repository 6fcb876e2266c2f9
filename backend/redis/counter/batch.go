package counter

import (
	"cmp"
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
)

// batch is the checks that a worker of a lane has out, and what it needs to send them. A worker uses it again and
// again. It is the courier of its checks.
type batch struct {
	store   *Store
	lane    *lane
	left    time.Time       // when it left
	until   time.Time       // when the last caller leaves
	patient context.Context // until nobody waits for a connection any more

	asks   []*ask
	sender *redis.Sender[*ask]
	live   []*ask // those of a group whose callers wait
	form   form
	pipe   []goredis.Cmder // its commands, with what goes before them
}

// form puts the checks of a batch into commands, and reads the replies. Its commands are used again and again.
type form interface {
	// write returns the commands for checks, in order. The checks have to stay as they are until these are over.
	write(r redis.Route, way redis.Way, asks []*ask) []command
	// read returns what became of the i-th check: its fate, and why it has no answer, if it has none; and whether the
	// server may have seen it.
	read(i int) (fate redis.Fate, written bool, why error)
	// release drops what the commands point to.
	release()
}

func newBatch(s *Store) *batch {
	b := &batch{store: s, form: s.method.form()}
	b.sender = redis.NewSender(s.servers, b, s.script, &s.resends)
	return b
}

// send gets an answer for each check, or none.
func (b *batch) send() {
	s := b.store
	s.sent.Add(1)
	s.checks.Add(uint64(len(b.asks)))
	if b.lane.meter != nil {
		for _, a := range b.asks {
			if a.first == a {
				b.lane.meter.Waited(b.left.Sub(a.joined))
			}
		}
	}
	ctx, cancel := context.WithDeadline(b.patient, b.left.Add(s.servers.Timeout()))
	defer cancel()
	b.sender.Send(ctx, b.asks, b.until, s.stopping)
}

// Exchange sends checks to one server and notes what became of each. It sends none whose caller has left meanwhile, and
// none to a server that is away.
func (b *batch) Exchange(ctx context.Context, r redis.Route, group []*ask) {
	l, err := b.laneTo(r.Client)
	if err != nil {
		refuseAll(group, err)
		return
	}
	if away := l.away.Load(); away != nil {
		refuseAll(group, away)
		return
	}
	start := time.Now()
	var way redis.Way
	if b.store.script != nil {
		way, err = b.store.script.On(ctx, r.Client)
	}
	until := b.keep(group)
	if len(b.live) == 0 {
		return
	}
	b.pipe = b.pipe[:0]
	found := outcomeOf(err, false)
	if err == nil {
		found, err = b.process(ctx, r, way, until)
	}
	if l.meter != nil && found >= unready {
		l.meter.Answered(time.Since(start))
	}
	if found == answered {
		l.pacer.answered(time.Since(start), time.Now())
	}
	shown := found
	if shown == answered && time.Now().After(until) {
		shown = lost // for those who asked
	}
	l.heard(shown, start, until.Sub(start), cmp.Or(err, errLate))
	away, replica := l.away.Load(), false
	for i, a := range b.live {
		fate, why, written := redis.Judge(err, false), err, false
		if len(b.pipe) > 0 {
			fate, written, why = b.form.read(i)
		}
		replica = replica || fate.Demoted()
		switch {
		case why == nil:
			a.Answered()
			continue
		case away != nil && !written:
			fate, why = redis.Fate{}, away
		case away != nil && fate.Unready(), !written && ctx.Err() != nil:
			fate = redis.Fate{}
		}
		a.Unanswered(fate, why)
	}
	if away != nil && replica { // nobody sends again, and would leave it
		l.disconnect()
	}
}

// laneTo returns the lane to a server: nearly always that of the batch.
func (b *batch) laneTo(client *goredis.Client) (*lane, error) {
	if client == b.lane.client {
		return b.lane, nil
	}
	return b.store.lane(client)
}

// refuseAll gives checks of a group up, for a reason.
func refuseAll(group []*ask, why error) {
	for _, a := range group {
		a.Unanswered(redis.Fate{}, why)
	}
}

// keep keeps the checks of a group whose callers wait, and returns until when the last one does. The others are dropped,
// but for those that are counted and not done with.
func (b *batch) keep(group []*ask) (until time.Time) {
	now := time.Now()
	b.live = b.live[:0]
	for _, a := range group {
		switch {
		case a.counted:
			if end := now.Add(b.store.servers.Timeout()); end.After(until) {
				until = end
			}
		case a.call.left(now):
			b.store.dropped.Add(1)
			a.Unanswered(redis.Fate{}, errLate)
			continue
		case a.call.leave.After(until):
			until = a.call.leave
		}
		b.live = append(b.live, a)
	}
	return until
}

// process sends the checks that are kept, once. It returns what that shows of the server, and an error if that is no
// answer.
func (b *batch) process(ctx context.Context, r redis.Route, way redis.Way, until time.Time) (found outcome, err error) {
	commands := b.form.write(r, way, b.live)
	for _, c := range commands {
		c.base().limit(until)
		if r.Asking {
			b.pipe = append(b.pipe, goredis.NewStatusCmd(ctx, "asking"))
		}
		b.pipe = append(b.pipe, c)
	}
	ctx = patience{ctx, commands[0].base()}
	if len(b.pipe) == 1 {
		_ = r.Client.Process(ctx, b.pipe[0]) // each command has its error
	} else {
		pipe := r.Client.Pipeline()
		_ = pipe.BatchProcess(ctx, b.pipe...) // queues them; it has no way to fail
		_, _ = pipe.Exec(ctx)
	}
	for i, c := range commands {
		if shown, why := c.shown(); i == 0 || shown > found {
			found, err = shown, why
		}
	}
	return found, err
}

// Gone reports whether the caller of a check has left that is not counted, and notes that the check is dropped.
func (b *batch) Gone(a *ask, now time.Time) bool {
	gone := !a.counted && a.call.left(now)
	if gone {
		b.store.dropped.Add(1)
		b.store.health.Heard(false)
	}
	return gone
}

// Done hands a check's answer to its caller, or why there is none.
func (b *batch) Done(a *ask, err error) {
	if a.counted {
		err = nil // whatever became of the rest
	}
	b.store.health.Heard(err == nil)
	if _, away := err.(*backend.Away); err != nil && !away {
		from := b.lane.client
		if a.Route.Client != nil {
			from = a.Route.Client
		}
		err = fmt.Errorf("%s: %w", from.Options().Addr, err)
	}
	a.answer(err)
}

// release drops what it points to.
func (b *batch) release() {
	b.sender.Release()
	clear(b.asks[:cap(b.asks)])
	clear(b.live[:cap(b.live)])
	clear(b.pipe[:cap(b.pipe)])
	b.form.release()
}
