package pipeline

import (
	"bytes"
	"context"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/outbound"
)

// Command is a command that go-redis sends once or not at all. Batches reuse it.
type Command struct {
	*goredis.Cmd
	Written bool // go-redis has taken the arguments: from then on the server may have seen them

	args     []any
	since    time.Time // when it was given to go-redis
	deadline time.Time // when nobody waits for it any more; zero: never

	// Of a call of a script:

	mode     CallMode
	requests int
	indexes  Blob    // of each request's payload
	payloads []*Blob // the payloads, each once
}

func newCommand() *Command { return &Command{Cmd: goredis.NewCmd(context.Background(), "evalsha")} }

// NoRetry reports true: go-redis then sends it once, whatever the options of its client are.
func (c *Command) NoRetry() bool { return true }

var ping = []any{"ping"}

// Args is called by go-redis when it writes the command: one that fails without it was not sent. If connecting took
// longer than the callers have left, PING goes in its place: it keeps the connection for the next command.
func (c *Command) Args() []any {
	if now := time.Now(); !c.deadline.IsZero() && now.Sub(c.since) >= c.deadline.Sub(now) {
		return ping
	}
	c.Written = true
	return c.args
}

// IsCommand reports whether the command is of this name.
func (c *Command) IsCommand(name string) bool { return c.args[0] == name }

// Failure returns why there is no answer. go-redis gives a pipeline's error also to commands that were answered.
func (c *Command) Failure() error {
	switch {
	case c.Val() != nil && c.Written:
		return nil
	case c.Err() == nil: // another command went in its place
		return outbound.ErrLate
	}
	return c.Err()
}

// reset makes it a new command, whose callers leave at a deadline; zero: never.
func (c *Command) reset(deadline time.Time, args ...any) {
	c.SetErr(nil)
	c.SetVal(nil)
	c.since, c.deadline, c.Written = time.Now(), deadline, false
	c.args = append(c.args[:0], args...)
}

// call sets the command to a call of the script for these requests, with a time for the script.
func (c *Command) call(mode CallMode, now string, requests []*Request) {
	c.mode, c.requests = mode, len(requests)
	c.indexes, c.payloads = c.indexes[:0], c.payloads[:0]
	c.args = append(c.args, mode.Command, mode.Name, len(requests))
	for i, r := range requests {
		r.State.Command, r.State.index = c, i
		c.args = append(c.args, (*Blob)(&r.State.Key))
		c.indexes = append(c.indexes, c.indexOf(&r.State.Payload))
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

// Blob is bytes that go-redis writes without a copy, if given a pointer.
type Blob []byte

// MarshalBinary gives the bytes themselves.
func (b *Blob) MarshalBinary() ([]byte, error) { return *b, nil }

// CutTail returns text, and its tail from an index on. Appending to text does not change the tail.
func CutTail(text []byte, from int) ([]byte, Blob) { return text, text[from:len(text):len(text)] }

// lateReply is how long after its callers have left an answer is still read.
const lateReply = 10 * time.Millisecond

// commandContext gives a new connection the store's timeout, and a written command the time until shortly after its
// callers leave. So a slow handshake does not fail, and a reply that is slightly late does not cost the connection.
type commandContext struct {
	context.Context
	command *Command
}

// Deadline is asked for before each write and each read.
func (c commandContext) Deadline() (time.Time, bool) {
	if c.command.Written {
		return c.command.deadline.Add(lateReply), true
	}
	return c.Context.Deadline()
}
