package redis

import (
	"context"
	"strings"

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
	now, err := s.serverClock(ctx, name)
	if err != nil {
		return nil, err
	}
	counts := make([]backend.LimitCount, len(limits))
	if len(limits) > 0 && limits[0].Algorithm == descriptors.SlidingLog {
		read := func(fields ...string) ([]string, error) { return s.fields(ctx, name, fields) }
		for i := range limits {
			if counts[i], err = script.CountLog(&limits[i], window.At(now), read); err != nil {
				return nil, unreadable(name, err)
			}
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

// fields reads fields of a hash, "" for those that are not there.
func (s scripted) fields(ctx context.Context, name string, fields []string) ([]string, error) {
	args := []any{"hmget", name}
	for _, field := range fields {
		args = append(args, field)
	}
	command := goredis.NewSliceCmd(ctx, args...)
	if err := s.Ask(ctx, name, command); err != nil {
		return nil, err
	}
	values := make([]string, len(fields))
	for i, value := range command.Val() {
		values[i], _ = value.(string) // nil where there is none
	}
	return values, nil
}

// Reset removes a key.
func (s scripted) Reset(ctx context.Context, key []byte) error {
	name := string(script.AppendKey(nil, key))
	return s.Ask(ctx, name, goredis.NewIntCmd(ctx, "unlink", name))
}

func (s scripted) listing() []string { return []string{"+hmget", "+time"} }

// keyOf knows a key by its hash tag.
func (s scripted) keyOf(name string) ([]byte, bool) {
	at := strings.IndexByte(name, '}') + 1
	if !strings.HasPrefix(name, "weir:{") || at == len(name) {
		return nil, false
	}
	key := []byte(name[at:])
	return key, string(script.AppendKey(nil, key)) == name
}

// glance reads the header of each limit.
func (s scripted) glance(ctx context.Context, name string, limits []descriptors.Limit) (goredis.Cmder, glanceReader) {
	args := append(make([]any, 0, 2+len(limits)), "hmget", name)
	for i := range limits {
		args = append(args, script.HeaderField(&limits[i]))
	}
	command := goredis.NewSliceCmd(ctx, args...)
	return command, func(now window.Instant) ([]backend.Glance, error) {
		holds := make([]backend.Glance, len(limits))
		for i, field := range command.Val() {
			text, _ := field.(string) // nil where there is none
			var err error
			if holds[i], err = script.Glance(text, &limits[i], now); err != nil {
				return nil, err
			}
		}
		return holds, nil
	}
}
