package counter

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis"
)

// command is what a batch sends, and what its reply shows.
type command interface {
	goredis.Cmder
	base() *once
	// shown returns what the reply shows of the server, with an error if that is no answer.
	shown() (outcome, error)
}

// once is a command that go-redis sends once or not at all. Its owner uses it again and again, one use after the other.
type once struct {
	*goredis.Cmd
	args    []any
	since   time.Time // when it was given to go-redis
	until   time.Time // when nobody waits for it any more; zero: never
	written bool      // go-redis has taken the arguments: from then on the server may have seen them
}

func newOnce(name string) once { return once{Cmd: goredis.NewCmd(context.Background(), name)} }

// base returns the command itself, from what embeds it.
func (o *once) base() *once { return o }

// NoRetry reports true, which is all that keeps go-redis from sending a command again: MaxRetries does not stop it from
// repeating pipelines.
func (o *once) NoRetry() bool { return true }

var ping = []any{"ping"}

// Args is what go-redis asks for when it writes a command, and not before: a command that fails unasked has not left.
// Where a new connection took longer than the callers have left, they would hardly see the answer either: the server is
// not asked to count, and the connection is there for the next command.
func (o *once) Args() []any {
	if now := time.Now(); !o.until.IsZero() && now.Sub(o.since) >= o.until.Sub(now) {
		return ping
	}
	o.written = true
	return o.args
}

// reset makes it a new command.
func (o *once) reset(args ...any) {
	o.SetErr(nil)
	o.SetVal(nil)
	o.until, o.written = time.Time{}, false
	o.args = append(o.args[:0], args...)
}

// limit sets until when somebody waits for it, from now on.
func (o *once) limit(until time.Time) { o.since, o.until = time.Now(), until }

// shown returns what the reply shows of the server, with an error if that is no answer.
func (o *once) shown() (outcome, error) {
	if err := o.Err(); err != nil {
		return outcomeOf(err, o.written), err
	}
	if !o.written { // a new connection came too late for its callers: the answers may, too
		return untold, errLate
	}
	return answered, nil
}

// release drops what it points to.
func (o *once) release() {
	o.SetVal(nil)
	clear(o.args[:cap(o.args)])
}

// scriptCall is one call of the script.
type scriptCall struct {
	once
	way       redis.Way
	asked     blob    // for each check the place of its question
	questions []*blob // each once
	checks    int
}

func newScriptCall() *scriptCall { return &scriptCall{once: newOnce("evalsha")} }

// set makes it the call for these checks at a time, as the script wants it: "" for the server's own. The checks have to
// stay as they are until the call is over. Somebody waits for it as long as it takes.
func (e *scriptCall) set(way redis.Way, now string, asks ...*ask) {
	e.reset(way.Command, way.Name, len(asks))
	e.way, e.checks = way, len(asks)
	e.asked, e.questions = e.asked[:0], e.questions[:0]
	for _, a := range asks {
		e.args = append(e.args, &a.key)
		e.asked = append(e.asked, e.place(&a.arg))
	}
	e.args = append(e.args, now, &e.asked)
	for _, question := range e.questions {
		e.args = append(e.args, question)
	}
}

// place returns the place of a question, from 1 on. Checks under the same limits ask the same, so there are few.
func (e *scriptCall) place(question *blob) byte {
	i := slices.IndexFunc(e.questions, func(q *blob) bool { return bytes.Equal(*q, *question) })
	if i < 0 {
		i = len(e.questions)
		e.questions = append(e.questions, question)
	}
	return byte(i + 1)
}

// item returns the i-th item of the reply, false if it is not the script's.
func (e *scriptCall) item(i int) (string, bool) {
	items, _ := e.Val().([]any)
	if len(items) != e.checks {
		return "", false
	}
	text, ok := items[i].(string)
	return text, ok
}

// shown is that of a command, but that the script may hand on what the server says.
func (e *scriptCall) shown() (outcome, error) {
	found, err := e.once.shown()
	if err != nil {
		return found, err
	}
	text, _ := e.item(0)
	if strings.HasPrefix(text, "!") && redis.JudgeText(text[1:]).Unready() {
		return unready, said{errors.New(text[1:])}
	}
	return found, nil
}

// outcomeOf returns what an exchange shows of a server that ended with an error, before or after it was written.
func outcomeOf(err error, written bool) outcome {
	var reply goredis.Error
	var network net.Error
	switch {
	case err == nil:
		return answered
	case redis.NoPrimary(err):
		return unreachable
	case errors.As(err, &reply) && redis.JudgeText(reply.Error()).Unready():
		return unready
	case errors.As(err, &reply):
		return answered
	case errors.Is(err, goredis.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, goredis.ErrPoolTimeout):
		return untold // it is ours
	case written, errors.As(err, &network) && network.Timeout():
		return lost
	}
	return unreachable
}

// release drops what it points to.
func (e *scriptCall) release() {
	e.once.release()
	clear(e.questions[:cap(e.questions)])
}

// blob is bytes that go-redis writes without a copy, when it is given their address.
type blob []byte

// MarshalBinary gives the bytes themselves.
func (b *blob) MarshalBinary() ([]byte, error) { return *b, nil }

// lateness is how long after its callers have left an answer is still read.
const lateness = 10 * time.Millisecond

// patience is the context of a command: it gives a new connection the store's timeout, whoever waits, and a command
// that is written little longer than until its callers leave. A server whose greeting takes longer than they have would
// otherwise never get a connection, and an answer that comes just too late would cost one.
type patience struct {
	context.Context
	command *once
}

// Deadline is asked for before each write and each read.
func (p patience) Deadline() (time.Time, bool) {
	if p.command.written {
		return p.command.until.Add(lateness), true
	}
	return p.Context.Deadline()
}
