package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Servers reaches the servers of a configuration for whatever may safely be done twice: what they keep beside counters.
// All methods may be called by any number of goroutines.
//
// Nothing here remaps: of a ring a command goes to the node that is named, or to none.
type Servers struct {
	topology  topology // of a ring nil
	redirects redirecting
	nodes     map[string]server // of a ring, by name
	config    Config
	rules     []string
}

// Place is where a command goes: to the owner of a key, and in a ring to the node of a name.
type Place struct{ Key, Node string }

// Script is a Lua script, and its name in the servers.
type Script struct{ source, sha string }

// NewScript makes a script of its source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Reply is what a script answered: strings, int64 and lists of them.
type Reply = []any

const (
	// safeTime bounds a command together with its redirects and repeats, whatever the caller's deadline.
	safeTime = 5 * time.Second
	// lostMost is how often a command is sent again that may have run: a connection that was idle is often found closed.
	lostMost = 2
)

// Connect makes servers of a configuration, and contacts none of them. Rules are those of a server's ACL that the
// caller needs beside the ones for counting, for errors to name.
//
// The nodes of a ring are read once: what is kept stays where it is when the list changes.
func Connect(c Config, rules ...string) (*Servers, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Servers{rules: rules, config: c}
	if c.Type != Ring {
		if s.topology, err = newTopology(c); err != nil {
			return nil, err
		}
		s.redirects, _ = s.topology.(redirecting)
		return s, nil
	}
	o, err := newOptions(c)
	if err != nil {
		return nil, err
	}
	list, err := c.readURL()
	if err != nil {
		return nil, err
	}
	targets, err := parseNodes(list)
	if err != nil {
		return nil, c.blame(err)
	}
	s.nodes = make(map[string]server, len(targets))
	for _, t := range targets {
		s.nodes[t.name] = server{name: t.name, client: goredis.NewClient(o.client(t)), login: o.login.of(t)}
	}
	return s, nil
}

// Nodes are the names of a ring's nodes, in order; nil where there is no ring.
func (s *Servers) Nodes() []string { return slices.Sorted(maps.Keys(s.nodes)) }

// NodesNow are the names of a ring's nodes, in order, by its list as it is now; nil where there is no ring.
func (s *Servers) NodesNow() ([]string, error) {
	if s.nodes == nil {
		return nil, nil
	}
	list, err := s.config.readURL()
	if err != nil {
		return nil, err
	}
	targets, err := parseNodes(list)
	if err != nil {
		return nil, s.config.blame(err)
	}
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.name
	}
	slices.Sort(names)
	return names, nil
}

// Close ends all connections.
func (s *Servers) Close() error {
	if s.topology != nil {
		return s.topology.close()
	}
	var err error
	for _, n := range s.nodes {
		err = errors.Join(err, n.client.Close())
	}
	return err
}

// Do sends a command that may run twice, until a server has answered it. Its error says what to mend.
func (s *Servers) Do(ctx context.Context, at Place, command ...any) (any, error) {
	return s.send(ctx, at, nil, command)
}

// Run runs a script that may run twice, until a server has answered it. Its error says what to mend.
func (s *Servers) Run(ctx context.Context, at Place, script *Script, keys []string, args ...any) (Reply, error) {
	command := make([]any, 0, 3+len(keys)+len(args))
	command = append(command, "evalsha", script.sha, len(keys))
	for _, k := range keys {
		command = append(command, k)
	}
	answer, err := s.send(ctx, at, script, append(command, args...))
	if err != nil {
		return nil, err
	}
	reply, ok := answer.([]any)
	if !ok {
		return nil, fmt.Errorf("redis: a script answered %v, which is no list", answer)
	}
	return reply, nil
}

// Each asks every server that should answer one after the other, and joins the errors.
func (s *Servers) Each(ctx context.Context, ask func(name string, do func(command ...any) (any, error)) error) error {
	all := slices.Collect(maps.Values(s.nodes))
	if s.topology != nil {
		var err error
		if all, err = s.topology.servers(ctx); err != nil {
			return err
		}
	}
	var failed error
	for _, one := range all {
		failed = errors.Join(failed, ask(one.name, func(command ...any) (any, error) {
			return exchange(ctx, one.client, false, command)
		}))
	}
	return failed
}

// owner is the client for a place.
func (s *Servers) owner(at Place) (*goredis.Client, error) {
	if s.topology != nil {
		return s.topology.shard([]byte(at.Key))
	}
	n, known := s.nodes[at.Node]
	if !known {
		return nil, fmt.Errorf("redis: the ring has no node %q", at.Node)
	}
	return n.client, nil
}

// send sends a command until it is answered, or will not be.
func (s *Servers) send(ctx context.Context, at Place, script *Script, command []any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, safeTime)
	defer cancel()
	client, err := s.owner(at)
	asking, lost := false, 0
	for try := 1; ; try++ {
		fate, addr, answer := again, "", any(nil)
		if err == nil {
			if answer, err = exchange(ctx, client, asking, command); err == nil {
				return answer, nil
			}
			if fate, addr = judgeSafe(err); fate == failed {
				return nil, s.explain(at, client, command, err)
			}
		} else if !errors.Is(err, errUnknownCluster) {
			return nil, err
		}
		var reply goredis.Error
		if fate == again && client != nil && !errors.As(err, &reply) {
			if lost++; lost > lostMost {
				return nil, s.explain(at, client, command, err)
			}
		}
		if fate == again || fate == demoted || try > freeTries {
			if !pause(ctx, try) {
				return nil, s.explain(at, client, command, err)
			}
		}
		client, asking, err = s.reroute(ctx, at, client, script, fate, addr, err)
	}
}

// pause waits before a command is sent again. It returns false if there is no time for it.
func pause(ctx context.Context, try int) bool {
	select {
	case <-time.After(min(firstPause<<min(try-1, 10), longestPause)):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// reroute says to whom a command that got an error goes next. Its own error is final, but for one that waits for a
// cluster to be known.
func (s *Servers) reroute(ctx context.Context, at Place, client *goredis.Client, script *Script, fate fate,
	addr string, cause error) (next *goredis.Client, asking bool, err error) {
	switch {
	case fate == unloaded && script != nil:
		return client, false, load(ctx, client, script.source)
	case (fate == moved || fate == asked) && s.redirects == nil:
		return nil, false, fmt.Errorf("%w: %w", errMisrouted, cause)
	case fate == moved || fate == asked:
		if fate == moved {
			s.redirects.reload()
		}
		next, err = s.redirects.at(client, addr)
		return next, fate == asked, err
	case fate == demoted:
		disconnect(ctx, client)
	}
	if s.redirects != nil {
		s.redirects.reload()
	}
	next, err = s.owner(at)
	return next, false, err
}

// judgeSafe is judge for a command that may run twice: one whose answer was lost may be sent again.
func judgeSafe(err error) (f fate, addr string) {
	var reply goredis.Error
	switch {
	case !errors.As(err, &reply):
		return again, ""
	case strings.Contains(reply.Error(), "-READONLY "): // as a script hands it on before Redis 7
		return demoted, ""
	}
	return judgeText(reply.Error())
}

// exchange sends a command once. An answer that there is nothing is nil.
func exchange(ctx context.Context, client *goredis.Client, asking bool, command []any) (any, error) {
	c := once{goredis.NewCmd(ctx, command...)}
	if !asking {
		_ = client.Process(ctx, c) // the command has the error too
	} else {
		pipe := client.Pipeline()
		_ = pipe.BatchProcess(ctx, goredis.NewStatusCmd(ctx, "asking"), c) // queues them
		_, _ = pipe.Exec(ctx)
	}
	if errors.Is(c.Err(), goredis.Nil) {
		return nil, nil
	}
	return c.Result()
}

// once is a command that go-redis sends once or not at all, see evalsha.
type once struct{ *goredis.Cmd }

// NoRetry keeps go-redis from repeating it in its own ways.
func (once) NoRetry() bool { return true }

// explain says of an error which server it is from and what it means.
func (s *Servers) explain(at Place, client *goredis.Client, command []any, err error) error {
	if client == nil {
		return err
	}
	from := server{name: client.Options().Addr, login: &login{}, rules: s.rules}
	switch t := s.topology.(type) {
	case nil:
		from.name, from.login = at.Node, s.nodes[at.Node].login
	case one:
		from.name, from.login = t.name, t.login
	case *cluster:
		from.login, from.rules = t.login, append([]string{"+cluster|slots", "+asking"}, s.rules...)
	}
	return explain(from, strings.ToUpper(fmt.Sprint(command[0])), err)
}
