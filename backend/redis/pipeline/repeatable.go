package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// Reply is what a script answered: strings, int64 and lists of them.
type Reply = []any

const (
	// repeatTimeout bounds a command that may run twice, with its redirects and repeats.
	repeatTimeout = 5 * time.Second
	// maxLostReplies is how often such a command loses its answer at most: an idle connection is often found closed.
	maxLostReplies = 3
)

// Do sends a command that may run twice until a server answers, for five seconds at most. A nil answer is nil. Its
// error names the server and the remedy.
func Do(ctx context.Context, s *topology.Servers, at topology.At, command ...any) (any, error) {
	return run(ctx, s, at, nil, command)
}

// Run is Do for a script.
func Run(ctx context.Context, s *topology.Servers, at topology.At, script *Script, keys []string, args ...any) (Reply, error) {
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(command, "evalsha", script.sha, len(keys))
	for _, k := range keys {
		command = append(command, k)
	}
	answer, err := run(ctx, s, at, script, append(command, args...))
	if err != nil {
		return nil, err
	}
	reply, ok := answer.([]any)
	if !ok {
		return nil, fmt.Errorf("redis: a script answered %v, which is not a list", answer)
	}
	return reply, nil
}

func run(ctx context.Context, s *topology.Servers, at topology.At, script *Script, command []any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, repeatTimeout)
	defer cancel()
	c := goredis.NewCmd(ctx, command...)
	if err := ask(ctx, s, at, script, c); err != nil {
		return nil, err
	}
	if errors.Is(c.Err(), goredis.Nil) {
		return nil, nil
	}
	return c.Result()
}

// Ask sends commands that may run twice to one server, together, until it answers all of them or ctx, which needs a
// deadline, ends. The answers are in the commands. Its error names the server and the remedy.
func Ask(ctx context.Context, s *topology.Servers, at topology.At, commands ...goredis.Cmder) error {
	return ask(ctx, s, at, nil, commands...)
}

func ask(ctx context.Context, s *topology.Servers, at topology.At, script *Script, commands ...goredis.Cmder) error {
	r := &Request{At: at}
	if err := r.find(s); err != nil {
		return err
	}
	q := &repeatable{servers: s, commands: commands}
	again := retry{servers: s, transport: q, script: script, resends: new(Resends)}
	until, _ := ctx.Deadline()
	again.send(ctx, []*Request{r}, until, ctx.Done())
	return q.err
}

// repeatable is the transport of commands that may run twice.
type repeatable struct {
	servers  *topology.Servers
	commands []goredis.Cmder
	failed   string // the name of the command that had no answer last
	lost     int    // answers
	err      error
}

func (q *repeatable) exchange(ctx context.Context, route Route, group []*Request) {
	for _, c := range q.commands {
		c.SetErr(nil)
	}
	if len(q.commands) == 1 && !route.Asking {
		_ = route.Client.Process(ctx, q.commands[0]) // the command has the error too
	} else {
		pipe := route.Client.Pipeline()
		if route.Asking {
			_ = pipe.Process(ctx, goredis.NewStatusCmd(ctx, "asking")) // queues it, as the next line does
		}
		_ = pipe.BatchProcess(ctx, q.commands...)
		_, _ = pipe.Exec(ctx)
	}
	r := group[0]
	at := slices.IndexFunc(q.commands, func(c goredis.Cmder) bool { return c.Err() != nil && c.Err() != goredis.Nil })
	if at < 0 {
		r.class, r.err = Answered, nil
		return
	}
	q.failed = q.commands[at].Name()
	r.err = q.commands[at].Err()
	r.class = classifyRepeatable(r.err)
	var reply goredis.Error
	if !errors.As(r.err, &reply) {
		if q.lost++; q.lost == maxLostReplies {
			r.class = Class{}
		}
	}
}

// drop reports false: the caller waits.
func (q *repeatable) drop(*Request, time.Time) bool { return false }

func (q *repeatable) done(r *Request, err error) {
	if q.err = err; r.Route.Client != nil {
		q.err = q.servers.DiagnoseOf(r.Route.Client, q.failed, err)
	}
}
