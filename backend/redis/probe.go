package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// probeTimeout is how long a server may take for all of a probe.
const probeTimeout = 5 * time.Second

// probe does once on a server what counting needs, and leaves keys that live for seconds. Its error names what is
// missing. In keys of envoyproxy/ratelimit it sends PING, and no more, as that program does.
func (s *Store) probe(ctx context.Context, server topology.Server) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	do := func(commands ...[]any) error {
		for _, c := range commands {
			if err := server.Client.Do(ctx, c...).Err(); err != nil && !errors.Is(err, goredis.Nil) {
				return s.servers.Diagnose(server, fmt.Sprint(c[0]), err)
			}
		}
		return nil
	}
	if s.script == nil {
		return cmp.Or(do([]any{"ping"}), s.Slow(server.Client))
	}
	mode, loadErr := s.script.Load(ctx, server.Client)
	if err := do([]any{"ping"}, []any{"time"}); err != nil {
		return err
	}
	if loadErr != nil {
		return s.servers.Diagnose(server, "loading the script", loadErr)
	}
	if err := s.probeScript(ctx, server, mode); err != nil {
		return err
	}
	// What the script needs only later, when it trims.
	name := script.KeyOf(server.Tag, "probe")
	if err := do([]any{"hdel", name, "nothing"}, []any{"hlen", name}, []any{"hkeys", name}, []any{"hscan", name, 0},
		[]any{"hmget", name, "nothing"}); err != nil {
		return err
	}
	s.logCallMode(server, mode)
	return s.Slow(server.Client)
}

// probeScript counts by each algorithm.
func (s *Store) probeScript(ctx context.Context, server topology.Server, mode pipeline.CallMode) error {
	checks := probeChecks()
	requests := make([]*pipeline.Request, len(checks))
	for i := range checks {
		requests[i] = &pipeline.Request{Payload: script.AppendArg(nil, &checks[i])}
		requests[i].Key = []byte(script.KeyOf(server.Tag, "probe"))
	}
	command := pipeline.NewScriptCall(mode, "", requests)
	if err := server.Client.Process(ctx, command); err != nil {
		return s.servers.Diagnose(server, mode.Command, err)
	}
	reply, err := command.StringSlice()
	for i := 0; err == nil && i < min(len(reply), len(checks)); i++ {
		_, err = script.Decode(reply[i], &checks[i])
	}
	if err != nil {
		return s.servers.Diagnose(server, "the script", pipeline.ReplyError(err.Error()))
	}
	return nil
}

// logCallMode logs a server's call mode if it changed, but not while it takes no writes: the probe's error says so.
func (s *Store) logCallMode(server topology.Server, mode pipeline.CallMode) {
	if mode.Full() || !s.changed(server.Name, mode.Command) {
		return
	}
	log := s.servers.Log().With("server", server.Name)
	switch {
	case mode.Refused == nil:
		log.Info("redis server counts by a library of functions", "library", mode.Name)
	case topology.Forbidden(mode.Refused):
		log.Warn("redis server counts by a script, which costs it more than functions; to allow these, which is noticed "+
			"within ten minutes: "+s.servers.ACLLine(server), "error", mode.Refused)
	default:
		log.Info("redis server counts by a script, which costs it more than functions: it has no FUNCTION, as Redis 7.0 " +
			"and Valkey have")
	}
}

// probeChecks count by each algorithm, alone and with others, and take that back. All are admitted, so that they write.
func probeChecks() (checks []backend.Check) {
	var counts []descriptors.Limit
	for _, a := range descriptors.Algorithms() {
		limit, _ := descriptors.NewLimit(math.MaxUint32, descriptors.Second, 1, a, 0) // good for each algorithm
		alone := []descriptors.Limit{limit}
		checks = append(checks, backend.Check{Limits: alone, Hits: 1}, backend.Check{Limits: alone, Hits: 1, Op: backend.Refund})
		if with := append(counts, limit); !descriptors.Mixed(with) {
			counts = with
		}
	}
	return append(checks,
		backend.Check{Limits: counts, Hits: 1},
		backend.Check{Limits: counts, Hits: 4, Op: backend.Refund},
	)
}

// rights are what counting needs of any server, and looking at counters and resetting them.
const rights = "~weir:* +ping +time +hget +hmget +hset +hdel +hlen +hkeys +hscan +pttl +pexpire +@scripting +hgetall +unlink"
