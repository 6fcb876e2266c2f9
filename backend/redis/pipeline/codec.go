package pipeline

import (
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
)

// Codec puts checks into commands, and reads the replies. Its methods may be called by any number of goroutines, but
// only one at a time uses a Request or a Batch.
type Codec interface {
	// Encode appends a check's key and payload to text, and sets them in the request's State, which is empty.
	Encode(text []byte, c *backend.Check, r *Request) []byte
	// Write adds the commands of requests to a batch. All requests go to one server.
	Write(b *Batch, requests []*Request)
	// Read returns the class of the reply to a request, and an error if it has no answer.
	Read(b *Batch, r *Request) (Class, error)
	// Decode reads the answer to a check.
	Decode(r *Request, c *backend.Check) (backend.Decision, error)
}

// ScriptCodec sends all checks of a batch in one call of a script, or one call for each check in a cluster, where the
// keys are in different slots. A call that fails as a whole counts none of its checks. The script gets the keys, the
// time, for each key the index of its payload, and the payloads. It answers a list of strings; a string that begins
// with ! is an error.
type ScriptCodec struct {
	// AppendKey appends the Redis key of a check's key.
	AppendKey func(dst, key []byte) []byte
	// AppendArg appends the payload of a check: its operation, hits and limits.
	AppendArg func(dst []byte, c *backend.Check) []byte
	// DecodeReply reads the answer to a check.
	DecodeReply func(reply string, c *backend.Check) (backend.Decision, error)
	// Now, if not nil, returns the time for the script, in decimal microseconds. By default the script uses its server's
	// clock.
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
	case !c.Written: // connecting took too long
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

// ReplyError is the error of one request of a command that was answered.
type ReplyError string

// Error returns its text.
func (e ReplyError) Error() string { return string(e) }

// RedisError makes e a [goredis.Error], an error that a server replied.
func (ReplyError) RedisError() {}

var _ goredis.Error = ReplyError("")
