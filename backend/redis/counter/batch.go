package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
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

	asks     []*ask
	sender   *redis.Sender[*ask]
	live     []*ask // those of a group whose callers wait
	commands []*scriptCall
	pipe     []goredis.Cmder // commands, with what goes before them
}

func newBatch(s *Store) *batch {
	b := &batch{store: s}
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
	way, err := b.store.script.On(ctx, r.Client)
	until := b.keep(group)
	if len(b.live) == 0 {
		return
	}
	size := len(b.live) // in one command, which ran for none of them if it fails as a whole
	if b.store.servers.Redirect() {
		size = 1 // their keys are in different slots
	}
	b.pipe = b.pipe[:0]
	found := outcomeOf(err, false)
	if err == nil {
		found, err = b.process(ctx, r, way, size, until)
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
			e := b.commands[i/size]
			fate, why = b.read(a, e, i%size)
			written = e.written
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

// keep keeps the checks of a group whose callers wait, and returns until when the last one does. The others are dropped.
func (b *batch) keep(group []*ask) (until time.Time) {
	now := time.Now()
	b.live = b.live[:0]
	for _, a := range group {
		switch {
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

// process sends the checks that are kept, once, as commands of a size. It returns what that shows of the server, and an
// error if that is no answer.
func (b *batch) process(ctx context.Context, r redis.Route, way redis.Way, size int, until time.Time) (found outcome, err error) {
	n := 0
	for ; n*size < len(b.live); n++ {
		if n == len(b.commands) {
			b.commands = append(b.commands, newScriptCall())
		}
		b.commands[n].set(way, b.store.now(), b.live[n*size:(n+1)*size]...)
		b.commands[n].limit(until)
		if r.Asking {
			b.pipe = append(b.pipe, goredis.NewStatusCmd(ctx, "asking"))
		}
		b.pipe = append(b.pipe, b.commands[n])
	}
	ctx = patience{ctx, b.commands[0]}
	if len(b.pipe) == 1 {
		_ = r.Client.Process(ctx, b.pipe[0]) // each command has its error
	} else {
		pipe := r.Client.Pipeline()
		_ = pipe.BatchProcess(ctx, b.pipe...) // queues them; it has no way to fail
		_, _ = pipe.Exec(ctx)
	}
	for i, e := range b.commands[:n] {
		if shown, why := e.shown(); i == 0 || shown > found {
			found, err = shown, why
		}
	}
	return found, err
}

// Gone reports whether the caller of a check has left, and notes that the check is dropped.
func (b *batch) Gone(a *ask, now time.Time) bool {
	gone := a.call.left(now)
	if gone {
		b.store.dropped.Add(1)
		b.store.health.Heard(false)
	}
	return gone
}

// Done hands a check's answer to its caller, or why there is none.
func (b *batch) Done(a *ask, err error) {
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
	for _, e := range b.commands {
		e.release()
	}
}

// read returns what the i-th item of a reply is to a check: its fate and why, where it is no answer.
func (b *batch) read(a *ask, e *scriptCall, i int) (redis.Fate, error) {
	switch err := e.Err(); {
	case err != nil:
		fate := e.way.Judge(err, e.written)
		if fate.Unloaded() { // the way may change, which a probe tells
			b.store.health.Heard(false)
		}
		return fate, err
	case !e.written: // making a connection took too long
		return redis.Judge(errLate, false), errLate
	}
	text, ok := e.item(i)
	switch {
	case !ok:
		return redis.Fate{}, errUnreadable
	case strings.HasPrefix(text, "!"): // what went wrong with a check that was not counted
		return redis.JudgeText(text[1:]), said{errors.New(text[1:])}
	}
	a.reply = text
	return redis.Fate{}, nil
}
