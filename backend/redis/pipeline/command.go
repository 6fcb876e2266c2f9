package pipeline

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// Command is a command that go-redis sends once or not at all. Batches reuse it.
type Command struct {
	*goredis.Cmd
	Written bool // go-redis has taken the arguments: from then on the server may have seen them

	args  []any
	since time.Time // when it was given to go-redis
	until time.Time // when nobody waits for it any more; zero: never

	// Of a call of a script:

	mode     CallMode
	requests int
	indexes  Blob    // of each request's payload
	payloads []*Blob // the payloads, each once
}

func newCommand() *Command { return &Command{Cmd: goredis.NewCmd(context.Background(), "evalsha")} }

// NoRetry reports true, which is all that keeps go-redis from sending a command again: MaxRetries does not stop it from
// repeating pipelines.
func (c *Command) NoRetry() bool { return true }

var ping = []any{"ping"}

// Args is called by go-redis when it writes the command, and not before: one that fails without it was not sent. If a
// new connection took longer than the callers have left, PING goes in its place: the answer would come too late, and
// the connection is kept for the next command.
func (c *Command) Args() []any {
	if now := time.Now(); !c.until.IsZero() && now.Sub(c.since) >= c.until.Sub(now) {
		return ping
	}
	c.Written = true
	return c.args
}

// IsCommand reports whether the command is of this name.
func (c *Command) IsCommand(name string) bool { return c.args[0] == name }

// AnsweredNil reports whether the server has answered nil.
func (c *Command) AnsweredNil() bool { return c.Written && errors.Is(c.Err(), goredis.Nil) }

// Failure returns why there is no answer. go-redis gives the error that ends a pipeline to all its commands, also to
// those that were answered before.
func (c *Command) Failure() error {
	switch {
	case c.Val() != nil && c.Written:
		return nil
	case c.Err() == nil: // another command went in its place
		return errLate
	}
	return c.Err()
}

// reset makes it a new command, whose callers wait until a time; zero: without a deadline.
func (c *Command) reset(until time.Time, args ...any) {
	c.SetErr(nil)
	c.SetVal(nil)
	c.since, c.until, c.Written = time.Now(), until, false
	c.args = append(c.args[:0], args...)
}

// release drops what it points to.
func (c *Command) release() {
	c.SetVal(nil)
	clear(c.args[:cap(c.args)])
	clear(c.payloads[:cap(c.payloads)])
}

// outcome is what an exchange showed of a server.
type outcome uint8

const (
	outcomeUnknown     outcome = iota // nothing
	outcomeUnreachable                // there was no connection to be had
	outcomeLost                       // no answer came
	outcomeLoading                    // it said that it cannot count now, whatever it is asked
	outcomeAnswered
)

// outcomeOf returns what an exchange shows of a server that ended with an error, before or after it was written.
func outcomeOf(err error, written bool) outcome {
	if err == nil { // first, as what follows allocates
		return outcomeAnswered
	}
	var reply goredis.Error
	var network net.Error
	switch {
	case topology.NoPrimary(err):
		return outcomeUnreachable
	case errors.As(err, &reply) && ClassifyText(reply.Error()).Loading():
		return outcomeLoading
	case errors.As(err, &reply):
		return outcomeAnswered
	case errors.Is(err, errLate), // a new connection came too late for its callers: the answers may, too
		errors.Is(err, goredis.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, goredis.ErrPoolTimeout):
		return outcomeUnknown // it is ours
	case written, errors.As(err, &network) && network.Timeout():
		return outcomeLost
	}
	return outcomeUnreachable
}

// lateReply is how long after its callers have left an answer is still read.
const lateReply = 10 * time.Millisecond

// commandContext gives a new connection the store's timeout, and a command that was written until shortly after its
// callers leave. Else a server with a slow greeting would never get a connection, and a reply that is just too late
// would cost one.
type commandContext struct {
	context.Context
	command *Command
}

// Deadline is asked for before each write and each read.
func (c commandContext) Deadline() (time.Time, bool) {
	if c.command.Written {
		return c.command.until.Add(lateReply), true
	}
	return c.Context.Deadline()
}

// ScriptCodec asks a script about all keys of a batch in one call, which counts none of them if it fails as a whole; in
// a cluster, where keys are in different slots, about each alone. The script gets the keys, a time, for each key the
// index of its payload, and the payloads. It answers a list of strings; one that begins with ! is an error.
type ScriptCodec struct {
	// AppendKey appends the Redis key of a check's key.
	AppendKey func(dst, key []byte) []byte
	// AppendArg appends the payload of a check: what is asked about its key.
	AppendArg func(dst []byte, c *backend.Check) []byte
	// DecodeReply reads the answer to a check.
	DecodeReply func(reply string, c *backend.Check) (backend.Decision, error)
	// Now, if not nil, returns the time for the script, in decimal microseconds; else that is the server's own.
	Now func() string
}

const errUnreadable = ReplyError("the reply is not the script's")

// Encode writes a check's key and payload.
func (s ScriptCodec) Encode(text []byte, c *backend.Check, r *Request) []byte {
	text, key := CutTail(s.AppendKey(text, c.Key), len(text))
	text, r.Payload = CutTail(s.AppendArg(text, c), len(text))
	r.Key = key
	return text
}

// Write writes one call for all requests, or one for each.
func (s ScriptCodec) Write(b *Batch, requests []*Request) {
	size, now := len(requests), ""
	if b.pipeline.servers.Redirects() {
		size = 1
	}
	if s.Now != nil {
		now = s.Now()
	}
	for group := range slices.Chunk(requests, size) {
		b.Command().call(b.mode, now, group)
	}
}

// NewScriptCall makes a call of a script for requests at a time, outside of any batch.
func NewScriptCall(mode CallMode, now string, requests []*Request) *Command {
	c := newCommand()
	c.call(mode, now, requests)
	return c
}

// call makes a command the call of a script for requests at a time.
func (c *Command) call(mode CallMode, now string, requests []*Request) {
	c.mode, c.requests = mode, len(requests)
	c.indexes, c.payloads = c.indexes[:0], c.payloads[:0]
	c.args = append(c.args, mode.Command, mode.Name, len(requests))
	for i, r := range requests {
		r.Command, r.Item = c, i
		c.args = append(c.args, (*Blob)(&r.Key))
		c.indexes = append(c.indexes, c.indexOf(&r.Payload))
	}
	c.args = append(c.args, now, &c.indexes)
	for _, payload := range c.payloads {
		c.args = append(c.args, payload)
	}
}

// indexOf returns the index of a payload, from 1 on. Checks under the same limits have the same, so there are few.
func (c *Command) indexOf(payload *Blob) byte {
	i := slices.IndexFunc(c.payloads, func(q *Blob) bool { return bytes.Equal(*q, *payload) })
	if i < 0 {
		i = len(c.payloads)
		c.payloads = append(c.payloads, payload)
	}
	return byte(i + 1)
}

// Read reads an item of the reply.
func (s ScriptCodec) Read(_ *Batch, r *Request) (Class, error) {
	c := r.Command
	switch err := c.Err(); {
	case err != nil:
		return c.mode.Classify(err, c.Written), err
	case !c.Written: // making a connection took too long
		return Classify(errLate, false), errLate
	}
	items, _ := c.Val().([]any)
	if len(items) != c.requests {
		return Class{}, errUnreadable
	}
	text, ok := items[r.Item].(string)
	if !ok {
		return Class{}, errUnreadable
	}
	if text, failed := strings.CutPrefix(text, "!"); failed { // the check was not counted
		return ClassifyText(text), ReplyError(text)
	}
	r.Reply = text
	return Answered, nil
}

// Decode reads the answer to a check.
func (s ScriptCodec) Decode(r *Request, c *backend.Check) (backend.Decision, error) {
	return s.DecodeReply(r.Reply, c)
}

// Blob is bytes that go-redis writes without a copy, if given a pointer.
type Blob []byte

// MarshalBinary gives the bytes themselves.
func (b *Blob) MarshalBinary() ([]byte, error) { return *b, nil }

// CutTail returns text, and its tail from an index on, which stays valid when text grows.
func CutTail(text []byte, from int) ([]byte, Blob) { return text, text[from:len(text):len(text)] }

// Codec puts checks into commands, and reads the replies. Its methods may be called by any number of goroutines, those
// that are given a Request or a Batch by the one that has it.
type Codec interface {
	// Encode appends to text what is sent of a check, and lets the request have it: at least its key.
	Encode(text []byte, c *backend.Check, r *Request) []byte
	// Write adds the commands of requests to a batch. They lead to one server.
	Write(b *Batch, requests []*Request)
	// Read returns what the reply to a request proves, and why it has no answer, if it has none.
	Read(b *Batch, r *Request) (Class, error)
	// Decode reads the answer to a check.
	Decode(r *Request, c *backend.Check) (backend.Decision, error)
}

// ReplyError is what went wrong with one request of a command that was answered.
type ReplyError string

// Error returns its text.
func (e ReplyError) Error() string { return string(e) }

// RedisError makes it one of go-redis's errors of servers.
func (ReplyError) RedisError() {}

var _ goredis.Error = ReplyError("")
