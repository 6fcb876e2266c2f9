package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// ratelimitCodec is the codec of envoyproxy/ratelimit's keys: a number for each window, counted by INCRBY. A check
// sends INCRBY with its hits, EXPIRE, and another INCRBY if the count needs a correction.
type ratelimitCodec struct {
	store      *Store
	keys       ratelimit.Keys
	refusesGet sync.Map // has the addresses of servers that refuse GET
}

// ratelimitCount is the CodecState of a check.
type ratelimitCount struct {
	ttl        pipeline.Blob
	add        int64         // hits to add; negative for a refund
	timeLeft   time.Duration // of the window
	look       bool
	after      int64             // value of the key after the check
	correction int64             // to be added by another INCRBY; see [ratelimit.Correction]
	hasTTL     bool              // the key has a TTL, or needs none
	expire     *pipeline.Command // sets the TTL
}

func countOf(r *pipeline.Request) *ratelimitCount { return r.State.CodecState.(*ratelimitCount) }

// ratelimitRights are the ACL rules that counting such keys needs on any server.
const ratelimitRights = "~* +incrby +expire +get +ping"

// Encode writes the name of a check's key, the hits to add, and the TTL.
func (p *ratelimitCodec) Encode(text []byte, c *backend.Check, r *pipeline.Request) []byte {
	stem, _ := descriptors.RatelimitKey(c.Key)
	w := p.keys.Window(&c.Limits[0], p.store.clock())
	n := &ratelimitCount{look: c.Op == backend.Look, add: ratelimit.Delta(c), timeLeft: w.TimeLeft}
	r.State.CodecState = n
	text, key := pipeline.CutTail(w.AppendKey(text, stem), len(text))
	text, r.State.Payload = pipeline.CutTail(strconv.AppendInt(text, n.add, 10), len(text))
	text, n.ttl = pipeline.CutTail(strconv.AppendInt(text, p.keys.TTL(w), 10), len(text))
	r.State.Key = key
	return text
}

func (p *ratelimitCodec) Write(b *pipeline.Batch, requests []*pipeline.Request) {
	_, refusesGet := p.refusesGet.Load(b.Client().Options().Addr)
	for _, r := range requests {
		n, key := countOf(r), (*pipeline.Blob)(&r.State.Key)
		switch {
		case !r.State.Counted && n.look && !refusesGet:
			r.State.Command = b.Command("get", key)
		case !r.State.Counted:
			r.State.Command = b.Command("incrby", key, &r.State.Payload)
		case n.correction != 0:
			r.State.Command = b.Command("incrby", key, n.correction)
		}
		if n.expire = nil; !n.hasTTL && (r.State.Counted || !n.look || refusesGet) {
			n.expire = b.Command("expire", key, &n.ttl)
		}
	}
}

const errUnfinished = pipeline.ReplyError("counted, and not finished")

// Read records the replies to a check. If the check is counted but must send more, the class is Continue.
func (p *ratelimitCodec) Read(b *pipeline.Batch, r *pipeline.Request) (class pipeline.Class, err error) {
	n := countOf(r)
	switch {
	case r.State.Command == nil:
	case r.State.Counted:
		class, err = readCorrection(n, r.State.Command)
	default:
		if class, err = p.readCount(b, r); err != nil {
			return class, err
		}
	}
	if n.expire != nil {
		if also, failed := p.readExpire(b, n.expire); failed != nil {
			class, err = also, failed
		} else {
			n.hasTTL = true
		}
	}
	switch {
	case err != nil:
		return class, err
	case n.correction != 0 || !n.hasTTL:
		return pipeline.Continue, errUnfinished
	}
	return pipeline.Answered, nil
}

// readCount reads the reply to the INCRBY that counts a check, or to the GET of a look.
func (p *ratelimitCodec) readCount(b *pipeline.Batch, r *pipeline.Request) (pipeline.Class, error) {
	n, c := countOf(r), r.State.Command
	looked := c.IsCommand("get")
	err := c.Failure()
	switch {
	case c.Written && errors.Is(err, goredis.Nil): // the key is not there
		r.State.Counted, n.hasTTL = true, true
		return pipeline.Answered, nil
	case err != nil && c.Written && isOverflow(err): // the counter is full: nothing was added
		r.State.Counted, n.after = true, math.MaxInt64
		if n.add < 0 {
			n.after = math.MinInt64
		}
		return pipeline.Answered, nil
	case err != nil && looked && c.Written && goredis.IsPermissionError(err):
		p.refusesGet.Store(b.Client().Options().Addr, true)
		p.logRefusal(b, "redis server refuses GET", "GET", err, "effect", "looks send INCRBY 0, which creates the key")
		return pipeline.Continue, err
	case err != nil:
		if c.Written && topology.Forbidden(err) {
			p.logRefusal(b, "redis server cannot count", "INCRBY", err)
		}
		return pipeline.Classify(err, c.Written), err
	}
	if n.after, err = parseCount(c.Val()); err != nil {
		return pipeline.Final, errNoNumber
	}
	r.State.Counted = true
	n.hasTTL = n.hasTTL || looked
	n.correction = ratelimit.Correction(n.add, n.after)
	return pipeline.Answered, nil
}

func parseCount(value any) (int64, error) {
	if n, ok := value.(int64); ok {
		return n, nil
	}
	return strconv.ParseInt(fmt.Sprint(value), 10, 64)
}

func isOverflow(err error) bool { return strings.Contains(err.Error(), "would overflow") }

const errNoNumber = pipeline.ReplyError("the key does not hold a number: somebody else uses it")

// readCorrection reads the reply to a correction. A correction that may have run is not sent again.
func readCorrection(n *ratelimitCount, c *pipeline.Command) (pipeline.Class, error) {
	if err := c.Failure(); err != nil {
		if class := pipeline.Classify(err, c.Written); class.Retryable() {
			return class, err
		}
	}
	n.correction = 0
	return pipeline.Answered, nil
}

// readExpire reads the reply to EXPIRE, which is sent again if the reply is lost. If it is refused, the key never
// expires.
func (p *ratelimitCodec) readExpire(b *pipeline.Batch, c *pipeline.Command) (pipeline.Class, error) {
	if err := c.Failure(); err != nil {
		var reply goredis.Error
		refused := c.Written && errors.As(err, &reply)
		if class := pipeline.Classify(err, refused); !refused || class.Retryable() {
			return class, err
		}
		p.logRefusal(b, "redis server keeps counters for ever", "EXPIRE", err)
	}
	return pipeline.Answered, nil
}

// logRefusal logs once that a server refuses a command. attrs are further attributes.
func (p *ratelimitCodec) logRefusal(b *pipeline.Batch, msg, command string, err error, attrs ...any) {
	servers := p.store.servers
	if name := servers.NameOf(b.Client()); p.store.logged.Due(command+" of "+name, err.Error(), 0) {
		servers.Config.Log.With(attrs...).Warn(msg, "server", name, "error", servers.DiagnoseOf(b.Client(), command, err))
	}
}

func (p *ratelimitCodec) Decode(r *pipeline.Request, c *backend.Check) (backend.Decision, error) {
	n := countOf(r)
	return ratelimit.Decide(c, n.after, n.timeLeft), nil
}

// Inspect reads the count of a key's window.
func (p *ratelimitCodec) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	stem, _ := descriptors.RatelimitKey(key)
	return p.keys.Counts(limits, p.store.clock, func(w ratelimit.Window) (int64, error) {
		name := string(w.AppendKey(nil, stem))
		get := goredis.NewStringCmd(ctx, "get", name)
		if err := p.store.Send(ctx, name, get); err != nil {
			return 0, err
		}
		n, err := parseCount(cmp.Or(get.Val(), "0"))
		if err != nil {
			return 0, fmt.Errorf("redis: key %q: %w", name, errNoNumber)
		}
		return n, nil
	})
}

// Reset deletes the key of the present window of each unit.
func (p *ratelimitCodec) Reset(ctx context.Context, key []byte) error {
	stem, _ := descriptors.RatelimitKey(key)
	for _, w := range ratelimit.Windows(p.store.clock()) {
		name := string(w.AppendKey(nil, stem))
		err := p.store.Send(ctx, name, goredis.NewIntCmd(ctx, "del", name))
		if err != nil && topology.Forbidden(err) {
			return fmt.Errorf("%w; to reset counters it also needs +del", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
