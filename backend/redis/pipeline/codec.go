package pipeline

import (
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
)

// Codec puts checks into commands, and reads the replies. Its methods may be called by any number of goroutines, those
// that are given a Request or a Batch by the one that has it.
type Codec interface {
	// Encode appends a check's key and payload to text, and sets them in the request's State, which is empty.
	Encode(text []byte, c *backend.Check, r *Request) []byte
	// Write adds the commands of requests to a batch. They lead to one server.
	Write(b *Batch, requests []*Request)
	// Read returns what the reply to a request proves, and why it has no answer, if it has none.
	Read(b *Batch, r *Request) (Class, error)
	// Decode reads the answer to a check.
	Decode(r *Request, c *backend.Check) (backend.Decision, error)
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
	text, r.State.Payload = CutTail(s.AppendArg(text, c), len(text))
	r.State.Key = key
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

// Read reads an item of the reply.
func (s ScriptCodec) Read(_ *Batch, r *Request) (Class, error) {
	c := r.State.Command
	switch err := c.Err(); {
	case err != nil:
		return c.mode.classify(err, c.Written), err
	case !c.Written: // making a connection took too long
		return Classify(outbound.ErrLate, false), outbound.ErrLate
	}
	items, _ := c.Val().([]any)
	if len(items) != c.requests {
		return Final, errUnreadable
	}
	text, ok := items[r.State.index].(string)
	if !ok {
		return Final, errUnreadable
	}
	if text, failed := strings.CutPrefix(text, "!"); failed { // the check was not counted
		return classifyText(text), ReplyError(text)
	}
	r.State.reply = text
	return Answered, nil
}

// Decode reads the answer to a check.
func (s ScriptCodec) Decode(r *Request, c *backend.Check) (backend.Decision, error) {
	return s.DecodeReply(r.State.reply, c)
}

// ReplyError is what went wrong with one request of a command that was answered.
type ReplyError string

// Error returns its text.
func (e ReplyError) Error() string { return string(e) }

// RedisError makes it one of go-redis's errors of servers.
func (ReplyError) RedisError() {}

var _ goredis.Error = ReplyError("")
