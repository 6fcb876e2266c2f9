package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Servers reaches the servers of a configuration. All methods may be called by any number of goroutines.
type Servers struct {
	topology  Topology
	redirects Redirecting // nil where servers do not name each other
	ring      *ring       // nil where there is none
	config    Config
	rights    Rights
	losses    *losses
	lent      bool // by others, who close them
	safe      Resends
	besides   sync.Map // of names of servers: []string, what Need was told
}

// Rights are what a caller needs of each server, as rules of an ACL: "~weir:*", "+get". Errors name them.
type Rights struct {
	Rules []string
	Note  string // what to know of them, in brackets before the ACL line; "" for nothing
}

// Reply is what a script answered: strings, int64 and lists of them.
type Reply = []any

const (
	// safeTime bounds a command that may run twice, together with its redirects and repeats, whatever the caller's
	// deadline.
	safeTime = 5 * time.Second
	// lostMost is how often such a command is sent again whose answer was lost: an idle connection is often found closed.
	lostMost = 2
)

// Connect checks a configuration and makes its servers. It contacts none of them.
func Connect(c Config, r Rights) (*Servers, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	l := newLosses()
	t, err := newTopology(c, l)
	if err != nil {
		return nil, err
	}
	return over(t, c, r, l), nil
}

// Over makes servers of a topology, which they close in the end, for tests. They cannot be watched, and log nothing.
func Over(t Topology, timeout time.Duration) *Servers {
	return over(t, Config{Timeout: timeout, Log: slog.New(slog.DiscardHandler)}, Rights{}, newLosses())
}

func over(t Topology, c Config, r Rights, l *losses) *Servers {
	s := &Servers{topology: t, config: c, rights: r, losses: l}
	s.redirects, _ = t.(Redirecting)
	s.ring, _ = t.(*ring)
	return s
}

// For returns the same servers for a use that needs other rights, and logs apart. They are closed by s, and not by their
// own Close.
func (s *Servers) For(r Rights, log *slog.Logger) *Servers {
	c := s.config
	c.Log = log
	same := over(s.topology, c, r, s.losses)
	same.lent = true
	return same
}

// Close ends all connections.
func (s *Servers) Close() error {
	if s.lent {
		return nil
	}
	return s.topology.Close()
}

// Timeout returns Config.Timeout, or its default.
func (s *Servers) Timeout() time.Duration { return s.config.Timeout }

// Log returns Config.Log, or its default.
func (s *Servers) Log() *slog.Logger { return s.config.Log }

// Need notes rights that are needed of one server besides those of all, as rules of an ACL. Errors name them, too.
func (s *Servers) Need(of Server, rules ...string) { s.besides.Store(of.Name, rules) }

// Owner returns the client of the server that owns a Redis key now, without waiting for any server; see [Topology].
func (s *Servers) Owner(key []byte) (*goredis.Client, error) { return s.topology.Owner(key) }

// NameOf returns the name of the server behind a client, for people.
func (s *Servers) NameOf(client *goredis.Client) string { return s.describe(client).Name }

// Lost notes that a server was away, and may have lost what it had counted. A cluster is asked who takes its place.
func (s *Servers) Lost(name string, now time.Time) {
	s.losses.note(name, now)
	s.Reload()
}

// Reload lets a cluster say anew which server owns what, in the background and at most five times a second.
func (s *Servers) Reload() {
	if s.redirects != nil {
		s.redirects.Reload()
	}
}

// StatesSince returns how many states a key may have had since t, at most: one, and one more for each time that its
// server was away or another took its place.
func (s *Servers) StatesSince(t time.Time) int { return 1 + s.losses.since(t) }

// Left reports whether a server has left for good: nothing is sent by its client any more.
func Left(client *goredis.Client) bool { return isClosed(client) }

// Redirect reports whether servers send commands on to each other, each by its key: then a command has one key.
func (s *Servers) Redirect() bool { return s.redirects != nil }

// Nodes returns the names of a ring's nodes, in order; nil where there is no ring.
func (s *Servers) Nodes() []string {
	if s.ring == nil {
		return nil
	}
	return s.ring.names()
}

// NodesNow returns the names of a ring's nodes, in order, by its list as it is now; nil where there is no ring.
func (s *Servers) NodesNow() ([]string, error) {
	if s.ring == nil {
		return nil, nil
	}
	list, err := s.config.readURL()
	if err != nil {
		return nil, err
	}
	targets, err := parseNodes(list)
	return namesOf(targets), s.config.blame(err)
}

// NodeOf returns the name of the ring's node that a key is placed on, "" where there is no ring or no node lives.
func (s *Servers) NodeOf(key []byte) string {
	if s.ring != nil {
		if n := s.ring.nodeOf(key); n != nil {
			return n.name
		}
	}
	return ""
}

// client returns the client of the server that an errand is for, nil with an error.
func (s *Servers) client(at At) (*goredis.Client, error) {
	if at.Node == "" {
		return s.topology.Owner(at.Key)
	}
	if s.ring != nil {
		if n := s.ring.find(func(n *node) bool { return n.name == at.Node }); n != nil {
			return n.client, nil
		}
	}
	return nil, fmt.Errorf("redis: the ring has no node %q", at.Node)
}

// Each asks every server that should answer, one after the other, and joins the errors. A command is sent once.
func (s *Servers) Each(ctx context.Context, ask func(name string, do func(command ...any) (any, error)) error) error {
	all, err := s.All(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, one := range all {
		failed = errors.Join(failed, ask(one.Name, func(command ...any) (any, error) {
			return one.Client.Do(ctx, command...).Result()
		}))
	}
	return failed
}

// Do sends a command that may run twice, until a server has answered it, for five seconds at most. An answer that there
// is nothing is nil. Its error names the server and the remedy.
func (s *Servers) Do(ctx context.Context, at At, command ...any) (any, error) {
	return s.run(ctx, at, nil, command)
}

// Run runs a script that may run twice, until a server has answered it, for five seconds at most. Its error names
// the server and the remedy.
func (s *Servers) Run(ctx context.Context, at At, script *Script, keys []string, args ...any) (Reply, error) {
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(command, "evalsha", script.sha, len(keys))
	for _, k := range keys {
		command = append(command, k)
	}
	answer, err := s.run(ctx, at, script, append(command, args...))
	if err != nil {
		return nil, err
	}
	reply, ok := answer.([]any)
	if !ok {
		return nil, fmt.Errorf("redis: a script answered %v, which is not a list", answer)
	}
	return reply, nil
}

func (s *Servers) run(ctx context.Context, at At, script *Script, command []any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, safeTime)
	defer cancel()
	c := goredis.NewCmd(ctx, command...)
	if err := s.ask(ctx, at, script, c); err != nil {
		return nil, err
	}
	if errors.Is(c.Err(), goredis.Nil) {
		return nil, nil
	}
	return c.Result()
}

// Ask sends commands that may run twice to one server, together, until it has answered all of them or ctx, which needs
// a deadline, ends. Their answers are in the commands. Its error names the server and the remedy.
func (s *Servers) Ask(ctx context.Context, at At, commands ...goredis.Cmder) error {
	return s.ask(ctx, at, nil, commands...)
}

func (s *Servers) ask(ctx context.Context, at At, script *Script, commands ...goredis.Cmder) error {
	q := &safeErrand{Errand: Errand{At: at}, servers: s, commands: commands}
	if err := s.find(&q.Errand); err != nil {
		return err
	}
	sender := &Sender[*safeErrand]{servers: s, courier: q, script: script, resends: &s.safe}
	until, _ := ctx.Deadline()
	sender.Send(ctx, []*safeErrand{q}, until, ctx.Done())
	return q.failure
}

// safeErrand is commands that may run twice. It is its own courier.
type safeErrand struct {
	Errand
	servers  *Servers
	commands []goredis.Cmder
	failed   string // the name of the command that had no answer last
	lost     int    // answers
	failure  error
}

// Exchange sends the commands once.
func (q *safeErrand) Exchange(ctx context.Context, r Route, _ []*safeErrand) {
	for _, c := range q.commands {
		c.SetErr(nil)
	}
	if len(q.commands) == 1 && !r.Asking {
		_ = r.Client.Process(ctx, q.commands[0]) // the command has the error too
	} else {
		pipe := r.Client.Pipeline()
		if r.Asking {
			_ = pipe.Process(ctx, goredis.NewStatusCmd(ctx, "asking")) // queues it, as the next line does
		}
		_ = pipe.BatchProcess(ctx, q.commands...)
		_, _ = pipe.Exec(ctx)
	}
	at := slices.IndexFunc(q.commands, func(c goredis.Cmder) bool { return c.Err() != nil && c.Err() != goredis.Nil })
	if at < 0 {
		q.Answered()
		return
	}
	var reply goredis.Error
	err := q.commands[at].Err()
	fate := judgeSafe(err)
	if fate.kind == again && !errors.As(err, &reply) {
		if q.lost++; q.lost > lostMost {
			fate = Fate{}
		}
	}
	q.failed = q.commands[at].Name()
	q.Unanswered(fate, err)
}

// Gone reports false: the caller waits.
func (q *safeErrand) Gone(*safeErrand, time.Time) bool { return false }

// Done keeps the reason for the caller.
func (q *safeErrand) Done(_ *safeErrand, err error) {
	if q.failure = err; q.Route.Client != nil {
		q.failure = q.servers.Diagnose(q.servers.describe(q.Route.Client), q.failed, err)
	}
}
