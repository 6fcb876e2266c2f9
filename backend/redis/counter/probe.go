package counter

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	if err := s.script.Load(ctx, server.Client); err != nil {
		return on.Diagnose(server, "SCRIPT LOAD", err)
	}
	checks, err := probeChecks()
	if err != nil {
		return err
	}
	hash, log := script.KeysOf(server.Tag, "probe")
	asks := make([]*ask, len(checks))
	for i := range checks {
		key := hash
		if checks[i].Limits[0].Algorithm == descriptors.SlidingLog {
			key = log
		}
		asks[i] = &ask{key: blob(key), arg: script.AppendArg(nil, &checks[i])}
	}
	command := newEvalsha(s.script.SHA())
	command.set("", asks...)
	if err := server.Client.Process(ctx, command); err != nil {
		return on.Diagnose(server, "EVALSHA", err)
	}
	reply, err := command.StringSlice()
	for i := 0; err == nil && i < min(len(reply), len(checks)); i++ {
		_, err = script.Decode(reply[i], &checks[i])
	}
	if err != nil {
		return on.Diagnose(server, "the script", said{err})
	}
	// What the script needs when it sweeps or trims, and when a log has grown: later than a probe can wait.
	return do([]any{"hdel", hash, "nothing"}, []any{"hlen", hash}, []any{"hkeys", hash}, []any{"hscan", hash, 0},
		[]any{"zrank", log, "nothing"}, []any{"zlexcount", log, "-", "+"},
		[]any{"zrangebylex", log, "-", "+", "limit", 0, 1}, []any{"zrevrangebylex", log, "+", "-", "limit", 0, 1})
}

// said is an error that a server answered with, in the midst of a reply.
type said struct{ error }

// RedisError makes it one of go-redis's errors of servers.
func (said) RedisError() {}

// Unwrap gives what the server said.
func (s said) Unwrap() error { return s.error }

// probeChecks count by each algorithm, alone and with the others, and take that back: the script goes several ways, and
// may need a right on one of them only. They are always admitted, so that they write. The last ones are logs.
func probeChecks() ([]backend.Check, error) {
	var checks []backend.Check
	var limits []descriptors.Limit
	for _, a := range []descriptors.Algorithm{
		descriptors.SlidingWindow, descriptors.FixedWindow, descriptors.TokenBucket, descriptors.SlidingLog,
	} {
		limit, err := descriptors.NewLimit(math.MaxUint32, descriptors.Second, 1, a, 0)
		if err != nil {
			return nil, fmt.Errorf("the limit of a probe: %w", err)
		}
		limits = append(limits, limit)
		checks = append(checks, backend.Check{Limits: []descriptors.Limit{limit}, Hits: 1})
	}
	counts, logs := limits[:3], limits[3:]
	return append(checks,
		backend.Check{Limits: counts, Hits: 1},
		backend.Check{Limits: counts, Hits: 4, Op: backend.Refund},
		backend.Check{Limits: logs, Hits: 1},
		backend.Check{Limits: logs, Hits: 4, Op: backend.Refund},
	), nil
}

// rights returns what counting needs of a server, and looking at counters and resetting them.
func rights() redis.Rights {
	rules := append([]string{"~weir:*", "+ping", "+time", "+script|load", "+evalsha"}, redis.RulesOf(script.Source())...)
	return redis.Rights{Rules: append(rules, inspectingRules...), Note: "the last two are for weir counters"}
}

// inspectingRules are for looking at counters and resetting them.
var inspectingRules = []string{"+hgetall", "+unlink"}
