package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// Reply is the answer of a script: strings, int64 and lists of them.
type Reply = []any

const (
	// repeatTimeout bounds a command that may run twice, with its redirects and repeats.
	repeatTimeout = 5 * time.Second
	// maxLostReplies is how often the reply to such a command may be lost before it fails. Idle connections are often
	// closed.
	maxLostReplies = 3
)

// Do sends a command that may run twice until it is answered, for five seconds at most. It returns nil for a nil reply.
// Its error names the server and the remedy.
func Do(ctx context.Context, s *topology.Servers, at topology.Destination, command ...any) (any, error) {
	return run(ctx, s, at, nil, command)
}

// Run is Do for a script.
func Run(ctx context.Context, s *topology.Servers, at topology.Destination, script *Script, keys []string, args ...any) (Reply, error) {
	command := []any{"evalsha", script.sha, len(keys)}
	for _, k := range keys {
		command = append(command, k)
	}
	answer, err := run(ctx, s, at, script, append(command, args...))
	reply, isList := answer.([]any)
	if err == nil && !isList {
		err = fmt.Errorf("redis: a script answered %v, which is not a list", answer)
	}
	return reply, err
}

func run(ctx context.Context, s *topology.Servers, at topology.Destination, script *Script, command []any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, repeatTimeout)
	defer cancel()
	c := goredis.NewCmd(ctx, command...)
	if err := send(ctx, s, at, script, c); err != nil {
		return nil, err
	}
	return c.Val(), nil
}

// Send sends commands that may run twice to the server that owns a Redis key, within the servers' timeout. The commands
// then hold their replies. Its error wraps ErrUnavailable, and names the server and the remedy, or is ErrClosed.
func (p *Pipeline) Send(ctx context.Context, key string, commands ...goredis.Cmder) error {
	if p.engine.Closed() {
		return backend.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, p.servers.Config.Timeout)
	defer cancel()
	if err := send(ctx, p.servers, topology.Destination{Key: []byte(key)}, nil, commands...); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// send sends commands that may run twice to one server, until it has answered all of them, or until ctx's deadline.
func send(ctx context.Context, s *topology.Servers, at topology.Destination, script *Script, commands ...goredis.Cmder) error {
	r := &Request{State: RequestState{Destination: at}}
	if err := r.State.findOwner(s); err != nil {
		return err
	}
	t := &repeatable{servers: s, commands: commands}
	again := retry{servers: s, transport: t, script: script}
	deadline, _ := ctx.Deadline()
	again.send(ctx, []*Request{r}, deadline, ctx.Done())
	return t.err
}

// repeatable is the transport of commands that may run twice.
type repeatable struct {
	servers     *topology.Servers
	commands    []goredis.Cmder
	failed      string // the name of the command that last got no reply
	lostReplies int    // lost so far
	err         error
}

func (t *repeatable) exchange(ctx context.Context, route Route, requests []*Request) {
	for _, c := range t.commands {
		c.SetErr(nil)
	}
	commands := t.commands
	if route.Asking {
		commands = slices.Concat([]goredis.Cmder{goredis.NewStatusCmd(ctx, "asking")}, commands)
	}
	execute(ctx, route.Client, commands)
	r := requests[0]
	at := slices.IndexFunc(t.commands, func(c goredis.Cmder) bool { return c.Err() != nil && c.Err() != goredis.Nil })
	if at < 0 {
		r.State.class, r.State.err = Answered, nil
		return
	}
	t.failed = t.commands[at].Name()
	r.State.err = t.commands[at].Err()
	r.State.class = Classify(r.State.err, true)
	if !topology.IsReply(r.State.err) && t.lostReplies+1 < maxLostReplies { // unlike a check it may run twice
		t.lostReplies++
		r.State.class.kind = classRetryable
	}
}

func (t *repeatable) done(r *Request, err error) {
	if t.err = err; r.State.Route.Client != nil {
		t.err = t.servers.DiagnoseOf(r.State.Route.Client, t.failed, err)
	}
}
