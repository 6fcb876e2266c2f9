package counter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis"
)

// batch is the checks that a worker of a lane has out, and what it needs to send them. A worker uses it again and
// again. It is the courier of its checks.
type batch struct {
	store *Store
	lane  *lane
	left  time.Time // when it left
	until time.Time // when the last caller leaves

	asks     []*ask
	sender   *redis.Sender[*ask]
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
	ctx, cancel := context.WithDeadline(context.Background(), b.left.Add(s.servers.Timeout()))
	defer cancel()
	b.sender.Send(ctx, b.asks, b.until, s.stopping)
}

// Exchange sends checks to one server and notes what became of each.
func (b *batch) Exchange(ctx context.Context, r redis.Route, group []*ask) {
	size := len(group) // in one command, which ran for none of them if it fails as a whole
	if b.store.servers.Redirect() {
		size = 1 // their keys are in different slots
	}
	way, err := b.store.script.On(ctx, r.Client)
	if err != nil {
		for _, a := range group {
			a.Unanswered(redis.Judge(err, false), err)
		}
		return
	}
	b.pipe = b.pipe[:0]
	for i := 0; i < len(group); i += size {
		if i/size == len(b.commands) {
			b.commands = append(b.commands, newScriptCall())
		}
		b.commands[i/size].set(way, b.store.now(), group[i:i+size]...)
		b.commands[i/size].limit(b.until)
		if r.Asking {
			b.pipe = append(b.pipe, goredis.NewStatusCmd(ctx, "asking"))
		}
		b.pipe = append(b.pipe, b.commands[i/size])
	}
	ctx = patience{ctx, b.commands[0]}
	if len(b.pipe) == 1 {
		_ = r.Client.Process(ctx, b.pipe[0]) // each command has its error
	} else {
		pipe := r.Client.Pipeline()
		_ = pipe.BatchProcess(ctx, b.pipe...) // queues them; it has no way to fail
		_, _ = pipe.Exec(ctx)
	}
	for i, a := range group {
		b.read(a, b.commands[i/size], i%size)
	}
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
	if err != nil {
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
	clear(b.pipe[:cap(b.pipe)])
	for _, e := range b.commands {
		e.release()
	}
}

// read notes what the i-th item of a reply is to a check.
func (b *batch) read(a *ask, e *scriptCall, i int) {
	switch err := e.Err(); {
	case err != nil:
		fate := e.way.Judge(err, e.written)
		if fate.Unloaded() { // the way may change, which a probe tells
			b.store.health.Heard(false)
		}
		a.Unanswered(fate, err)
		return
	case !e.written: // making a connection took too long
		a.Unanswered(redis.Judge(errLate, false), errLate)
		return
	}
	var text string
	items, _ := e.Val().([]any)
	ok := len(items) == e.checks
	if ok {
		text, ok = items[i].(string)
	}
	switch {
	case !ok:
		a.Unanswered(redis.Fate{}, errUnreadable)
	case strings.HasPrefix(text, "!"): // what went wrong with a check that was not counted
		a.Unanswered(redis.JudgeText(text[1:]), errors.New(text[1:]))
	default:
		a.reply = text
		a.Answered()
	}
}
