package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// probeTimeout bounds a whole probe of a server.
const probeTimeout = 5 * time.Second

// probe runs each command that counting needs once on a server, on a key that expires within seconds. Its error names
// what is missing. For keys of envoyproxy/ratelimit it only sends PING, as that program does.
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
		return do([]any{"ping"})
	}
	mode, loadErr := s.script.Load(ctx, server.Client)
	if err := do([]any{"ping"}, []any{"time"}); err != nil {
		return err
	}
	if loadErr != nil {
		return s.servers.Diagnose(server, "loading the script", loadErr)
	}
	name := script.KeyOf(server.Tag, "probe")
	if err := do(
		[]any{mode.Command, mode.Name, 0, 0, ""}, // without keys it does nothing
		[]any{"hset", name, "a", 0}, []any{"pexpire", name, probeTimeout.Milliseconds()}, []any{"pttl", name},
		[]any{"hget", name, "a"}, []any{"hmget", name, "a"}, []any{"hdel", name, "b"}, []any{"hlen", name},
		[]any{"hkeys", name}, []any{"hscan", name, 0},
	); err != nil {
		return err
	}
	s.logCallMode(server.Name, mode)
	return nil
}

// logCallMode logs a server's call mode if it has changed. It ignores a server that takes no writes, which the probe
// reports as an error.
func (s *Store) logCallMode(server string, mode pipeline.CallMode) {
	if mode.TakesNoWrites() || !s.logged.Due(server, mode.Command+mode.Foreign, 0) {
		return
	}
	log := s.servers.Config.Log.With("server", server, "command", mode.Command, "name", mode.Name)
	if mode.Refused != nil {
		log = log.With("refused", mode.Refused)
	}
	if mode.Foreign != "" {
		log.Warn("foreign redis library", "library", mode.Foreign,
			"remedy", "ACL SETUSER OTHER -function, for all others; FUNCTION DELETE "+mode.Foreign)
		return
	}
	log.Info("redis call mode")
}

// rights are the ACL rules that counting, inspecting and resetting need on any server.
const rights = "~weir:* +ping +time +hget +hmget +hset +hdel +hlen +hkeys +hscan +pttl +pexpire +@scripting " +
	"+hgetall +unlink"
