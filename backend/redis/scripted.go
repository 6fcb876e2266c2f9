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
		read := func(fields ...string) ([]string, error) {
			command := readFields(ctx, name, fields)
			err := s.Ask(ctx, name, command)
			return textsOf(command, len(fields)), err
		}
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

// readFields is a command that reads fields of a hash.
func readFields(ctx context.Context, name string, fields []string) *goredis.SliceCmd {
	args := []any{"hmget", name}
	for _, field := range fields {
		args = append(args, field)
	}
	return goredis.NewSliceCmd(ctx, args...)
}

// textsOf returns n fields that readFields has read, "" for those that are not there.
func textsOf(c *goredis.SliceCmd, n int) []string {
	texts := make([]string, n)
	for i, value := range c.Val()[:min(n, len(c.Val()))] {
		texts[i], _ = value.(string)
	}
	return texts
}

// Reset removes a key.
func (s scripted) Reset(ctx context.Context, key []byte) error {
	name := string(script.AppendKey(nil, key))
	return s.Ask(ctx, name, goredis.NewIntCmd(ctx, "unlink", name))
}
