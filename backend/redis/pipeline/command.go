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
	Written bool // go-redis has read the arguments, so the server may have seen them

	args      []any
	submitted time.Time // when go-redis got the command
	deadline  time.Time // when its last caller leaves; zero: never

	// For a call of a script:

	mode     CallMode
	requests int
	indexes  Blob    // of each request's payload
	payloads []*Blob // the payloads, each once
}

func newCommand() *Command { return &Command{Cmd: goredis.NewCmd(context.Background(), "evalsha")} }

// NoRetry reports true, so that go-redis sends the command only once, with any options of its client.
func (c *Command) NoRetry() bool { return true }

var ping = []any{"ping"}

// Args is called by go-redis when it writes the command; a command that fails before was not sent. If connecting took
// longer than the time that the callers have left, Args returns PING, so that the connection stays for the next
// command.
func (c *Command) Args() []any {
	if now := time.Now(); !c.deadline.IsZero() && now.Sub(c.submitted) >= c.deadline.Sub(now) {
		return ping
	}
	c.Written = true
	return c.args
}

// IsCommand reports whether the command has this name.
func (c *Command) IsCommand(name string) bool { return c.args[0] == name }

// Failure returns why the command has no answer, nil if it has one. Unlike it, Err may be set on an answered command,
// as go-redis sets a pipeline's error on all its commands.
func (c *Command) Failure() error {
	switch {
	case c.Val() != nil && c.Written:
		return nil
	case c.Err() == nil: // PING was sent in its place
		return outbound.ErrLate
	}
	return c.Err()
}

// reset makes c a new command, whose callers leave at a deadline; zero: never.
func (c *Command) reset(deadline time.Time, args ...any) {
	c.SetErr(nil)
	c.SetVal(nil)
	c.submitted, c.deadline, c.Written = time.Now(), deadline, false
	c.args = append(c.args[:0], args...)
}

// call makes c a call of the script for these requests, at the time now.
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

// indexOf returns the index of a payload, from 1 on. Checks under the same limits share a payload, so there are few.
func (c *Command) indexOf(payload *Blob) byte {
	i := slices.IndexFunc(c.payloads, func(q *Blob) bool { return bytes.Equal(*q, *payload) })
	if i < 0 {
		i = len(c.payloads)
		c.payloads = append(c.payloads, payload)
	}
	return byte(i + 1)
}

// Blob is an argument that go-redis writes without a copy, if it gets a pointer to it.
type Blob []byte

// MarshalBinary returns the bytes themselves.
func (b *Blob) MarshalBinary() ([]byte, error) { return *b, nil }

// CutTail returns text and its tail from an index on. Appending to text does not change the tail.
func CutTail(text []byte, from int) ([]byte, Blob) { return text, text[from:len(text):len(text)] }

// lateReply is how long a reply is still awaited after the callers have left.
const lateReply = 10 * time.Millisecond

// commandContext gives a new connection the store's timeout, and a written command the time until shortly after its
// callers leave. So a slow handshake does not fail, and a reply that is slightly late does not cost the connection.
type commandContext struct {
	context.Context
	command *Command
}

// Deadline is called by go-redis before each write and each read.
func (c commandContext) Deadline() (time.Time, bool) {
	if c.command.Written {
		return c.command.deadline.Add(lateReply), true
	}
	return c.Context.Deadline()
}
