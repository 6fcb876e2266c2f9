package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// scripted is keys of weir: a hash for each descriptor, which the script counts in.
type scripted struct{ *Store }

// Inspect reads what a key holds, by the clock of its server.
func (s scripted) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	name := string(script.AppendKey(nil, key))
	now := s.clock()
	if s.now == nil {
		server := goredis.NewTimeCmd(ctx, "time")
		if err := s.Ask(ctx, name, server); err != nil {
			return nil, err
		}
		now = server.Val()
	}
	counts := make([]backend.LimitCount, len(limits))
	if len(limits) > 0 && limits[0].Algorithm == descriptors.SlidingLog {
		read := func(fields ...string) ([]string, error) { return s.readFields(ctx, name, fields) }
		for i := range limits {
			count, err := script.CountLog(&limits[i], window.At(now), read)
			if err != nil {
				return nil, unreadable(name, err)
			}
			counts[i] = count
		}
		return counts, nil
	}
	fields := goredis.NewMapStringStringCmd(ctx, "hgetall", name)
	if err := s.Ask(ctx, name, fields); err != nil {
		return nil, err
	}
	for i := range limits {
		counts[i] = script.Count(fields.Val(), &limits[i], now)
	}
	return counts, nil
}

// readFields reads fields of a hash, "" for those that are not there.
func (s scripted) readFields(ctx context.Context, name string, fields []string) ([]string, error) {
	args := []any{"hmget", name}
	for _, field := range fields {
		args = append(args, field)
	}
	command := goredis.NewSliceCmd(ctx, args...)
	err := s.Ask(ctx, name, command)
	texts := make([]string, len(fields))
	for i := range min(len(fields), len(command.Val())) {
		texts[i], _ = command.Val()[i].(string)
	}
	return texts, err
}

func (s scripted) Reset(ctx context.Context, key []byte) error {
	name := string(script.AppendKey(nil, key))
	return s.Ask(ctx, name, goredis.NewIntCmd(ctx, "unlink", name))
}
