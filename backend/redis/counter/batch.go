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

// batch is the checks that a worker of a lane has out, and what it needs to send them. A worker uses it again and again.
// It is the courier of its checks.
type batch struct {
	store *Store
	lane  *lane
	left  time.Time // when it left
	until time.Time // when the last caller leaves

	asks   []*ask
	sender *redis.Sender[*ask]
	whole  *evalsha   // a call of all checks that go to one server
	each   []*evalsha // calls of one each
	pipe   []goredis.Cmder
}

func newBatch(s *Store) *batch {
	b := &batch{store: s, whole: newEvalsha(s.script.SHA())}
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

// Exchange sends checks of one server and tells each what became of it.
func (b *batch) Exchange(ctx context.Context, r redis.Route, group []*ask) {
	if b.store.servers.Redirect() {
		b.exchangeEach(ctx, r, group)
	} else {
		b.exchangeWhole(ctx, r.Client, group)
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
	b.whole.release()
	for _, e := range b.each {
		e.release()
	}
}

// exchangeWhole sends checks as one command. If it fails as a whole, it ran for none of them.
func (b *batch) exchangeWhole(ctx context.Context, client *goredis.Client, group []*ask) {
	b.whole.set(b.store.now(), group...)
	b.whole.limit(b.until)
	_ = client.Process(patience{ctx, b.whole}, b.whole) // the command has the error too
	for i, a := range group {
		b.read(a, b.whole, i)
	}
}

// exchangeEach sends checks as a pipeline of a command each, on one connection: their keys are in different slots.
func (b *batch) exchangeEach(ctx context.Context, r redis.Route, group []*ask) {
	b.pipe = b.pipe[:0]
	for i, a := range group {
		if i == len(b.each) {
			b.each = append(b.each, newEvalsha(b.store.script.SHA()))
		}
		b.each[i].set(b.store.now(), a)
		b.each[i].limit(b.until)
		if r.Asking {
			b.pipe = append(b.pipe, goredis.NewStatusCmd(ctx, "asking"))
		}
		b.pipe = append(b.pipe, b.each[i])
	}
	ctx = patience{ctx, b.each[0]}
	if len(b.pipe) == 1 {
		_ = r.Client.Process(ctx, b.each[0]) // each command has its error
	} else {
		pipe := r.Client.Pipeline()
		_ = pipe.BatchProcess(ctx, b.pipe...) // queues them; it has no way to fail
		_, _ = pipe.Exec(ctx)
	}
	for i, a := range group {
		b.read(a, b.each[i], 0)
	}
}

// read notes what the i-th item of a reply is to a check.
func (b *batch) read(a *ask, e *evalsha, i int) {
	switch err := e.Err(); {
	case err != nil:
		a.Unanswered(redis.Judge(err, e.written), err)
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
