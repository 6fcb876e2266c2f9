package counter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/script"
	"github.com/weirproxy/weir/descriptors"
)

// probeTime is how long a server may take for all of a probe.
const probeTime = 5 * time.Second

// probe finds out whether a server can count: it does once what counting needs, and leaves keys that live for seconds.
// Its error names what is missing.
func (s *Store) probe(ctx context.Context, on *redis.Servers, server redis.Server) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	way, unloaded := s.script.Load(ctx, server.Client)
	on.Need(server, rightsTo(way)...)
	do := func(commands ...[]any) error {
		for _, c := range commands {
			if err := server.Client.Do(ctx, c...).Err(); err != nil && !errors.Is(err, goredis.Nil) {
				return on.Diagnose(server, fmt.Sprint(c[0]), err)
			}
		}
		return nil
	}
	if err := do([]any{"ping"}, []any{"time"}); err != nil {
		return err
	}
	if unloaded != nil {
		return on.Diagnose(server, "loading the script", unloaded)
	}
	if err := s.probeScript(ctx, on, server, way); err != nil {
		return err
	}
	// What the script needs when it trims: later than a probe can wait.
	name := script.KeyOf(server.Tag, "probe")
	if err := do([]any{"hdel", name, "nothing"}, []any{"hlen", name}, []any{"hkeys", name}, []any{"hscan", name, 0},
		[]any{"hmget", name, "nothing"}); err != nil {
		return err
	}
	s.tell(on, server, way)
	if way.Command == "fcall" {
		s.tidy(ctx, on, server, way.Name)
	}
	if l, known := s.lanes.Load(server.Client); known {
		return l.(*lane).slow()
	}
	return nil
}

// probeScript counts by each algorithm.
func (s *Store) probeScript(ctx context.Context, on *redis.Servers, server redis.Server, way redis.Way) error {
	checks, err := probeChecks()
	if err != nil {
		return err
	}
	asks := make([]*ask, len(checks))
	for i := range checks {
		asks[i] = &ask{key: blob(script.KeyOf(server.Tag, "probe")), arg: script.AppendArg(nil, &checks[i])}
	}
	command := newScriptCall()
	command.set(way, "", asks...)
	if err := server.Client.Process(ctx, command); err != nil {
		return on.Diagnose(server, way.Command, err)
	}
	reply, err := command.StringSlice()
	for i := 0; err == nil && i < min(len(reply), len(checks)); i++ {
		_, err = script.Decode(reply[i], &checks[i])
	}
	if err != nil {
		return on.Diagnose(server, "the script", said{err})
	}
	return nil
}

// tell logs how a server is called, if that is news. A script that is called only until the server takes writes again is
// none: what it lacks is told by the probe's error.
func (s *Store) tell(on *redis.Servers, server redis.Server, way redis.Way) {
	if way.Full() || !s.news(server.Name, way.Command) {
		return
	}
	switch {
	case way.Refused == nil:
		on.Log().Info("redis server counts by a library of functions", "server", server.Name, "library", way.Name)
	case redis.Forbidden(way.Refused):
		on.Log().Warn("redis server counts by a script, which costs it more than functions; to allow these, which is noticed "+
			"within ten minutes: "+on.ACLLine(server), "server", server.Name, "error", way.Refused)
	default:
		on.Log().Info("redis server counts by a script, which costs it more than functions: it has no FUNCTION, as Redis 7.0 "+
			"and Valkey have", "server", server.Name)
	}
}

// news reports whether what is told of something differs from what was told before.
func (s *Store) news(of, what string) bool {
	before, known := s.told.Swap(of, what)
	return !known || before != what
}

// said is an error that a server answered with, in the midst of a reply.
type said struct{ error }

// RedisError makes it one of go-redis's errors of servers.
func (said) RedisError() {}

// Unwrap gives what the server said.
func (s said) Unwrap() error { return s.error }

// probeChecks count by each algorithm, alone and with others, and take that back: the script may need a right for one
// of them only. They are always admitted, so that they write.
func probeChecks() ([]backend.Check, error) {
	var checks []backend.Check
	var counts []descriptors.Limit
	for _, a := range []descriptors.Algorithm{
		descriptors.SlidingWindow, descriptors.FixedWindow, descriptors.TokenBucket, descriptors.SlidingLog,
	} {
		limit, err := descriptors.NewLimit(math.MaxUint32, descriptors.Second, 1, a, 0)
		if err != nil {
			return nil, fmt.Errorf("the limit of a probe: %w", err)
		}
		alone := []descriptors.Limit{limit}
		checks = append(checks, backend.Check{Limits: alone, Hits: 1}, backend.Check{Limits: alone, Hits: 1, Op: backend.Refund})
		if a != descriptors.SlidingLog {
			counts = append(counts, limit)
		}
	}
	return append(checks,
		backend.Check{Limits: counts, Hits: 1},
		backend.Check{Limits: counts, Hits: 4, Op: backend.Refund},
	), nil
}

// rights returns what counting needs of any server, and looking at counters and resetting them.
func rights() redis.Rights {
	rules := append([]string{"~weir:*", "+ping"}, redis.RulesOf(script.Source())...)
	return redis.Rights{Rules: append(rules, inspectingRules...), Note: "the last two are for weir counters"}
}

// rightsBeside returns what counting by the script needs besides, of a user who has the rights to count by INCRBY: such a
// one mostly may use all keys, and Redis refuses to grant some of them then.
func rightsBeside() redis.Rights {
	r := rights()
	r.Rules = slices.DeleteFunc(r.Rules, func(rule string) bool { return strings.HasPrefix(rule, "~") })
	r.Note += "; and ~weir:*, unless it may use all keys"
	return r
}

// inspectingRules are for looking at counters and resetting them.
var inspectingRules = []string{"+hgetall", "+unlink"}

// rightsTo returns what calling the script needs: of a server that has functions these, also where they are not allowed
// yet.
func rightsTo(way redis.Way) []string {
	if way.Refused == nil || redis.Forbidden(way.Refused) || way.Full() {
		return []string{"+fcall", "+function|load", "+function|list", "+function|delete"}
	}
	return []string{"+evalsha", "+script|load"}
}
