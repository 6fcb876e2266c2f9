package pipeline

import (
	"bytes"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend"
)

// ScriptCodec asks a script about all keys of a batch in one call, which counts none of them if it fails as a whole; in
// a cluster, where keys are in different slots, about each alone. The script gets the keys, a time, for each key the
// index of its question, and the questions. It answers a list of strings; one that begins with ! is an error.
type ScriptCodec struct {
	// AppendKey appends the Redis key of a check's key.
	AppendKey func(dst, key []byte) []byte
	// AppendArg appends the question that a check asks.
	AppendArg func(dst []byte, c *backend.Check) []byte
	// DecodeReply reads the answer to a check.
	DecodeReply func(reply string, c *backend.Check) (backend.Decision, error)
	// Now, if not nil, returns the time for the script, in decimal microseconds; else that is the server's own.
	Now func() string
}

const errUnreadable = ReplyError("the reply is not the script's")

// Encode writes a check's key and question.
func (s ScriptCodec) Encode(text []byte, c *backend.Check, r *Request) []byte {
	text, key := Cut(s.AppendKey(text, c.Key), len(text))
	text, r.Payload = Cut(s.AppendArg(text, c), len(text))
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
	c.places, c.questions = c.places[:0], c.questions[:0]
	c.args = append(c.args, mode.Command, mode.Name, len(requests))
	for i, r := range requests {
		r.Command, r.Item = c, i
		c.args = append(c.args, (*Blob)(&r.Key))
		c.places = append(c.places, c.place(&r.Payload))
	}
	c.args = append(c.args, now, &c.places)
	for _, question := range c.questions {
		c.args = append(c.args, question)
	}
}

// place returns the place of a question, from 1 on. Checks under the same limits ask the same, so there are few.
func (c *Command) place(question *Blob) byte {
	i := slices.IndexFunc(c.questions, func(q *Blob) bool { return bytes.Equal(*q, *question) })
	if i < 0 {
		i = len(c.questions)
		c.questions = append(c.questions, question)
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
	if why, failed := strings.CutPrefix(text, "!"); failed { // the check was not counted
		return ClassifyText(why), ReplyError(why)
	}
	r.Reply = text
	return Answered, nil
}

// Decode reads the answer to a check.
func (s ScriptCodec) Decode(r *Request, c *backend.Check) (backend.Decision, error) {
	return s.DecodeReply(r.Reply, c)
}
