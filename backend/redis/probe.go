package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/counter"
	"github.com/weirproxy/weir/descriptors"
)

const (
	// firstProbePause and longestProbePause bound the pauses between probes; each is up to twice the one before.
	firstProbePause, longestProbePause = time.Second, 30 * time.Second
	// probeTime is how long a server may take for all of a probe.
	probeTime = 5 * time.Second
)

// probeKey gives the i-th of the Redis keys that probes count on. No descriptor has such a key: theirs begin with a
// digit.
func probeKey(i int) []byte { return counter.AppendKey(nil, fmt.Appendf(nil, "probe %d", i)) }

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
	asks := make([]*ask, len(checks))
	for i := range checks {
		asks[i] = &ask{key: s.key, arg: counter.AppendArg(nil, &checks[i])}
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
		return explain(s, "the script", err)
	}
	// The script needs these rights when it sweeps, which is later than a probe can wait.
	if err := s.client.HDel(ctx, string(s.key), "nothing").Err(); err != nil {
		return explain(s, "HDEL", err)
	}
	return explain(s, "HKEYS", s.client.HKeys(ctx, string(s.key)).Err())
}

// probeChecks count by each algorithm, alone and with the others, and take that back: the script goes several ways, and
// may need a right on one of them only. They are always admitted, so that they write.
func probeChecks() ([]backend.Check, error) {
	var checks []backend.Check
	var limits []descriptors.Limit
	for _, a := range []descriptors.Algorithm{descriptors.SlidingWindow, descriptors.FixedWindow} {
		limit, err := descriptors.NewLimit(math.MaxUint32, descriptors.Second, 1, a, 0)
		if err != nil {
			return nil, fmt.Errorf("the limit of a probe: %w", err)
		}
		limits = append(limits, limit)
		checks = append(checks, backend.Check{Limits: []descriptors.Limit{limit}, Hits: 1})
	}
	return append(checks,
		backend.Check{Limits: limits, Hits: 1},
		backend.Check{Limits: limits, Hits: 4, Op: backend.Refund},
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
		hint = "; grant all that weir needs: " + aclLine(s)
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
	return fmt.Sprintf("ACL SETUSER %s %s", user, strings.Join(append(countingRules(), s.rules...), " "))
}

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

// status is what is known about the servers since the start.
type status struct {
	stop context.CancelFunc
	done sync.WaitGroup
	last atomic.Pointer[error]
}

var errNotProbed = errors.New("redis has not been asked yet whether it can count")

// watch probes all servers of a topology until each can count, in the background.
func watch(t topology, log *slog.Logger) *status {
	ctx, cancel := context.WithCancel(context.Background())
	s := &status{stop: cancel}
	s.last.Store(&errNotProbed)
	s.done.Go(func() { s.run(ctx, t, log) })
	return s
}

// ready is nil as soon as one server can count, and stays it: what happens to servers later is for the failure policy
// of each rule, not a reason to send requests elsewhere.
func (s *status) ready() error { return *s.last.Load() }

// close ends the probes.
func (s *status) close() {
	s.stop()
	s.done.Wait()
}

func (s *status) run(ctx context.Context, t topology, log *slog.Logger) {
	var logged string
	for pause := firstProbePause; ; pause = min(2*pause, longestProbePause) {
		r := probeAll(ctx, t)
		if ctx.Err() != nil {
			return
		}
		if r.fine > 0 {
			s.last.Store(new(error))
		} else if s.ready() != nil {
			s.last.Store(&r.err)
		}
		if r.err == nil {
			log.Info("redis can count", "servers", r.fine)
			return
		}
		if r.kind != logged {
			logged = r.kind
			log.Warn("redis cannot count everywhere", "servers_that_can", r.fine, "error", r.err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return
		}
	}
}

// report is what a round of probes found.
type report struct {
	fine int // servers that can count
	err  error
	kind string // the error without what differs from one time to the next, as ports do
}

func probeAll(ctx context.Context, t topology) report {
	servers, err := t.servers(ctx)
	if err != nil {
		return report{err: err, kind: "unknown servers"}
	}
	slices.SortFunc(servers, func(a, b server) int { return strings.Compare(a.name, b.name) })
	failed := make([]error, len(servers))
	var running sync.WaitGroup
	for i, s := range servers {
		running.Go(func() { failed[i] = probe(ctx, s) })
	}
	running.Wait()
	r := report{err: errors.Join(failed...)}
	for i, err := range failed {
		var reply goredis.Error
		switch {
		case err == nil:
			r.fine++
		case errors.As(err, &reply):
			r.kind += fmt.Sprintf("%s: %s\n", servers[i].name, reply)
		default:
			r.kind += servers[i].name + ": away\n"
		}
	}
	return r
}
