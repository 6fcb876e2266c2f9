package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/counter"
	"github.com/weirproxy/weir/descriptors"
)

// probeTime is how long a server may take for all of a probe.
const probeTime = 5 * time.Second

// probeKey gives the i-th of the Redis keys that probes count on. No descriptor has such a key: theirs begin with a
// digit.
func probeKey(i int) []byte { return counter.AppendKey(nil, fmt.Appendf(nil, "probe %d", i), nil) }

// probe finds out whether a server can count: it does once what counting needs, and leaves a key that lives for seconds.
// Its error names what is missing.
func probe(ctx context.Context, s server) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := s.client.Ping(ctx).Err(); err != nil {
		return explain(s, "PING", err)
	}
	if err := s.client.Time(ctx).Err(); err != nil {
		return explain(s, "TIME", err)
	}
	if err := s.client.ScriptLoad(ctx, counter.Source()).Err(); err != nil {
		return explain(s, "SCRIPT LOAD", err)
	}
	checks, err := probeChecks()
	if err != nil {
		return err
	}
	_, key, _ := bytes.Cut(s.key, []byte("}"))
	asks := make([]*ask, len(checks))
	for i := range checks {
		name := counter.AppendKey(nil, key, checks[i].Limits)
		asks[i] = &ask{key: name, arg: counter.AppendArg(nil, &checks[i])}
	}
	command := newEvalsha(counter.SHA())
	command.set("", asks...)
	if err := s.client.Process(ctx, command); err != nil {
		return explain(s, "EVALSHA", err)
	}
	reply, err := command.StringSlice()
	for i := 0; err == nil && i < min(len(reply), len(checks)); i++ {
		_, err = counter.Decode(reply[i], &checks[i])
	}
	if err != nil {
		return explain(s, "the script", said{err})
	}
	return probeLater(ctx, s, string(asks[len(asks)-1].key))
}

// probeLater asks for what the script needs when it sweeps or trims, and when a log has grown: later than a probe can
// wait.
func probeLater(ctx context.Context, s server, log string) error {
	p := s.client.Pipeline()
	p.HDel(ctx, string(s.key), "nothing")
	p.HLen(ctx, string(s.key))
	p.HKeys(ctx, string(s.key))
	p.HScan(ctx, string(s.key), 0, "", 1)
	p.ZRank(ctx, log, "nothing")
	p.ZLexCount(ctx, log, "-", "+")
	p.ZRangeByLex(ctx, log, &goredis.ZRangeBy{Min: "-", Max: "+", Count: 1})
	p.ZRevRangeByLex(ctx, log, &goredis.ZRangeBy{Min: "-", Max: "+", Count: 1})
	commands, _ := p.Exec(ctx) // each has its own error
	for _, c := range commands {
		if err := c.Err(); err != nil && !errors.Is(err, goredis.Nil) {
			return explain(s, strings.ToUpper(c.Name()), err)
		}
	}
	return nil
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

// explain says what an error of a server means for someone who can mend it.
func explain(s server, command string, err error) error {
	var hint string
	_, misplaced := goredis.IsMovedError(err)
	switch {
	case err == nil:
		return nil
	case goredis.IsPermissionError(err), strings.Contains(err.Error(), "can't run this command"),
		strings.Contains(err.Error(), "can't access at least one of the keys"):
		hint = "; grant all that weir needs: " + aclLine(s) + " (the last two are for weir counters)"
	case goredis.IsAuthError(err):
		hint = "; the credentials are missing or wrong"
	case misplaced:
		hint = "; it is part of a cluster: set the type to cluster"
	case goredis.IsReadOnlyError(err):
		hint = "; it is a replica: name the primary, or use sentinels"
	}
	return fmt.Errorf("%s: %s: %w%s", s.name, command, err, hint)
}

// aclLine is what gives a user all the rights that weir needs, and no other.
func aclLine(s server) string {
	user := "<user>"
	if name, _, err := s.login.credentials(context.Background()); err == nil && name != "" {
		user = name
	}
	rules := slices.Concat(countingRules(), s.rules, inspectingRules)
	return fmt.Sprintf("ACL SETUSER %s %s", user, strings.Join(rules, " "))
}

// inspectingRules are the ACL rules for looking at counters and resetting them, beside those for counting.
var inspectingRules = []string{"+hgetall", "+unlink"}

var scriptCommand = regexp.MustCompile(`call\('([A-Z]+)'`)

// countingRules are the ACL rules for counting. A script needs the rights of its own commands too, so they are read
// from it.
func countingRules() []string {
	rules := []string{"~weir:*", "+ping", "+time", "+script|load", "+evalsha"}
	for _, found := range scriptCommand.FindAllStringSubmatch(counter.Source(), -1) {
		if rule := "+" + strings.ToLower(found[1]); !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}
