package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// maxTries is how often a check is sent at most. Redirects rarely need more than three.
	maxTries = 20
	// freeTries is how often a check is sent again without a pause, after an error that needs none.
	freeTries = 3
	// firstPause and longestPause bound the pauses before a check is sent again; each is twice the one before.
	firstPause, longestPause = time.Millisecond, 64 * time.Millisecond
)

// batch is the checks that a sender has out, and what it needs to send them. A sender uses it again and again.
type batch struct {
	store *Store
	lane  *lane
	left  time.Time // when it left
	until time.Time // when the last caller leaves

	asks  []*ask // those without an answer
	group []*ask // those that go to one server together
	spare []*ask
	whole *evalsha   // a call of all of group
	each  []*evalsha // calls of one each
	pipe  []goredis.Cmder
}

func newBatch(s *Store) *batch { return &batch{store: s, whole: newEvalsha(s.script.sha)} }

// send gets an answer for each check, or none.
func (b *batch) send() {
	s := b.store
	s.sent.Add(1)
	s.checks.Add(uint64(len(b.asks)))
	ctx, cancel := context.WithDeadline(context.Background(), b.left.Add(s.timeout))
	defer cancel()
	for try := 1; ; try++ {
		b.exchangeAll(ctx)
		if len(b.asks) == 0 {
			return
		}
		if try == maxTries || !b.pause(try) {
			break
		}
		b.reroute(ctx)
		s.resent.Add(uint64(len(b.asks)))
	}
	for _, a := range b.asks {
		b.fail(a, a.err)
	}
}

// fail answers a check that has no answer.
func (b *batch) fail(a *ask, err error) {
	b.store.probed.hear(false)
	a.answer("", fmt.Errorf("%s: %w", a.route.client.Options().Addr, err))
}

// release drops what it points to.
func (b *batch) release() {
	for _, asks := range [][]*ask{b.asks, b.group, b.spare} {
		clear(asks[:cap(asks)])
	}
	clear(b.pipe[:cap(b.pipe)])
	b.whole.release()
	for _, e := range b.each {
		e.release()
	}
}

// exchangeAll sends each check once, by its route. Those that may be sent again stay.
func (b *batch) exchangeAll(ctx context.Context) {
	todo := b.asks
	b.asks, b.spare = b.spare[:0], todo
	for len(todo) > 0 {
		r, rest := todo[0].route, todo[:0]
		b.group = b.group[:0]
		for _, a := range todo {
			if a.route == r {
				b.group = append(b.group, a)
			} else {
				rest = append(rest, a)
			}
		}
		todo = rest
		if b.store.redirects == nil {
			b.exchangeWhole(ctx, r.client)
		} else {
			b.exchangeEach(ctx, r)
		}
	}
}

// exchangeWhole sends the group as one command. If it fails as a whole, it ran for none of them.
func (b *batch) exchangeWhole(ctx context.Context, client *goredis.Client) {
	b.whole.set(b.store.now(), b.group...)
	b.whole.limit(b.until)
	_ = client.Process(patience{ctx, b.whole}, b.whole) // the command has the error too
	for i, a := range b.group {
		b.settle(a, b.whole, i)
	}
}

// exchangeEach sends the group as a pipeline of a command each, on one connection: their keys are in different slots.
func (b *batch) exchangeEach(ctx context.Context, r route) {
	b.pipe = b.pipe[:0]
	for i, a := range b.group {
		if i == len(b.each) {
			b.each = append(b.each, newEvalsha(b.store.script.sha))
		}
		b.each[i].set(b.store.now(), a)
		b.each[i].limit(b.until)
		if r.asking {
			b.pipe = append(b.pipe, goredis.NewStatusCmd(ctx, "asking"))
		}
		b.pipe = append(b.pipe, b.each[i])
	}
	ctx = patience{ctx, b.each[0]}
	if len(b.pipe) == 1 {
		_ = r.client.Process(ctx, b.each[0]) // each command has its error
	} else {
		pipe := r.client.Pipeline()
		_ = pipe.BatchProcess(ctx, b.pipe...) // queues them; it has no way to fail
		_, _ = pipe.Exec(ctx)
	}
	for i, a := range b.group {
		b.settle(a, b.each[i], 0)
	}
}

// settle answers a check from the i-th item of a reply, or keeps it to be sent again.
func (b *batch) settle(a *ask, e *evalsha, i int) {
	items, _ := e.Val().([]any)
	switch err := e.Err(); {
	case err != nil:
		a.fate, a.addr = judge(err, e.written)
		b.keep(a, err)
	case !e.written: // making a connection took too long
		a.fate = again
		b.keep(a, errLate)
	case len(items) != e.checks:
		b.fail(a, errUnreadable)
	default:
		b.read(a, items[i])
	}
}

// read reads the script's answer to a check.
func (b *batch) read(a *ask, item any) {
	text, ok := item.(string)
	switch {
	case !ok:
		b.fail(a, errUnreadable)
	case strings.HasPrefix(text, "!"): // what went wrong with a check that was not counted
		a.fate, a.addr = judgeText(text[1:])
		b.keep(a, errors.New(text[1:]))
	default:
		b.store.probed.hear(true)
		a.answer(text, nil)
	}
}

// keep keeps a check to be sent again, if its fate allows it.
func (b *batch) keep(a *ask, err error) {
	if a.fate == failed {
		b.fail(a, err)
		return
	}
	a.err = err
	b.asks = append(b.asks, a)
}

// pause waits before what is left is sent again, if need be. It returns false if there is no time for it.
func (b *batch) pause(try int) bool {
	needed := try > freeTries
	for _, a := range b.asks {
		needed = needed || a.fate == again || a.fate == demoted
	}
	if !needed {
		return true
	}
	wait := min(firstPause<<(try-1), longestPause)
	if time.Until(b.until) <= wait {
		return false
	}
	select {
	case <-time.After(wait):
		return true
	case <-b.store.stopping:
		return false
	}
}

// reroute finds out how the checks are to be sent now. It drops those whose callers have left.
func (b *batch) reroute(ctx context.Context) {
	todo := b.asks
	b.asks = b.asks[:0]
	now := time.Now()
	mended := make(map[*goredis.Client]error) // what was done once for all checks of a server
	for _, a := range todo {
		if a.call.left(now) {
			b.store.dropped.Add(1)
			b.store.probed.hear(false)
			continue
		}
		if err := b.aim(ctx, a, mended); err != nil {
			b.fail(a, err)
			continue
		}
		b.asks = append(b.asks, a)
	}
}

// aim gives a check its next route.
func (b *batch) aim(ctx context.Context, a *ask, mended map[*goredis.Client]error) error {
	s, client := b.store, a.route.client
	switch a.fate {
	case unloaded:
		if _, known := mended[client]; !known {
			mended[client] = load(ctx, client, s.script.source)
		}
		return mended[client]
	case moved, asked:
		if s.redirects == nil {
			return fmt.Errorf("%w: %w", errMisrouted, a.err)
		}
		if a.fate == moved {
			s.redirects.reload()
		}
		named, err := s.redirects.at(client, a.addr)
		if err != nil {
			return err
		}
		a.route = route{client: named, asking: a.fate == asked}
		s.redirected.Add(1)
		return nil
	}
	if _, known := mended[client]; !known {
		mended[client] = nil
		if s.redirects != nil {
			s.redirects.reload()
		}
		if a.fate == demoted {
			disconnect(ctx, client)
		}
	}
	owner, err := s.topology.shard(a.key)
	if err != nil {
		return err
	}
	a.route = route{client: owner}
	return nil
}

// load gives a server the script. An error is one that sending the check again would not mend.
func load(ctx context.Context, client *goredis.Client, source string) error {
	err := client.ScriptLoad(ctx, source).Err()
	if err == nil {
		return nil
	}
	if f, _ := judge(err, true); f != failed {
		return nil
	}
	return fmt.Errorf("loading the script: %w", err)
}

// disconnect closes the connections to a server that nothing uses now: they lead to a replica, where new ones may lead
// to the primary. go-redis closes one, and none where the script hands the refusal on for each check.
func disconnect(ctx context.Context, client *goredis.Client) {
	for range client.PoolStats().IdleConns {
		conn := client.EphemeralConn()
		err := conn.Ping(ctx).Err() // takes the connection
		_ = conn.Close()
		if err != nil {
			return
		}
	}
}
