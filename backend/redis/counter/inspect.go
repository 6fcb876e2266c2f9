package counter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/script"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var _ backend.Inspector = (*Store)(nil)

// Inspect tells what a key holds, by the clock of its server. It reads the key whole, but for long logs: this is for
// people, not for the request path.
func (s *Store) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	name := string(script.AppendKey(nil, key, limits))
	if len(limits) > 0 && limits[0].Algorithm == descriptors.SlidingLog {
		return s.inspectLogs(ctx, name, limits)
	}
	fields, clock := goredis.NewMapStringStringCmd(ctx, "hgetall", name), goredis.NewTimeCmd(ctx, "time")
	if err := s.ask(ctx, name, fields, clock); err != nil {
		return nil, err
	}
	now, err := s.clock(clock)
	if err != nil {
		return nil, err
	}
	counts := make([]backend.LimitCount, 0, len(limits))
	for i := range limits {
		counts = append(counts, script.Count(fields.Val(), &limits[i], now))
	}
	return counts, nil
}

// inspectLogs reads the newest instants of logs, and then the first that count.
func (s *Store) inspectLogs(ctx context.Context, name string, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	newest, first := make([]*goredis.StringSliceCmd, len(limits)), make([]*goredis.StringSliceCmd, len(limits))
	var commands []goredis.Cmder
	for i := range limits {
		from, to := script.LogRange(&limits[i])
		newest[i] = goredis.NewStringSliceCmd(ctx, "zrevrangebylex", name, to, from, "limit", 0, backend.MaxInstants)
		commands = append(commands, newest[i])
	}
	clock := goredis.NewTimeCmd(ctx, "time")
	if err := s.ask(ctx, name, append(commands, clock)...); err != nil {
		return nil, err
	}
	now, err := s.clock(clock)
	if err != nil {
		return nil, err
	}
	commands = commands[:0]
	for i := range limits {
		_, to := script.LogRange(&limits[i])
		from := script.LogStart(&limits[i], window.At(now))
		first[i] = goredis.NewStringSliceCmd(ctx, "zrangebylex", name, from, to, "limit", 0, 1)
		commands = append(commands, first[i])
	}
	if err := s.ask(ctx, name, commands...); err != nil {
		return nil, err
	}
	counts := make([]backend.LimitCount, len(limits))
	for i := range limits {
		counts[i], err = script.CountLog(limits[i], newest[i].Val(), first[i].Val(), window.At(now))
		if err != nil {
			return nil, fmt.Errorf("redis: key %q: %w", name, err)
		}
	}
	return counts, nil
}

// clock returns the time of a server, or of a test.
func (s *Store) clock(server *goredis.TimeCmd) (time.Time, error) {
	text := s.now()
	if text == "" {
		return server.Val(), nil
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("redis: the clock tells %q: %w", text, err)
	}
	return time.UnixMicro(micros), nil
}

// Reset removes a key, under whatever limits it was counted.
func (s *Store) Reset(ctx context.Context, key []byte) error {
	for _, name := range script.Keys(key) {
		if err := s.ask(ctx, name, goredis.NewIntCmd(ctx, "unlink", name)); err != nil {
			return err
		}
	}
	return nil
}

// ask sends commands about a Redis key, which may run twice, to the server that owns it. It takes the servers' timeout
// at most. Its error wraps ErrUnavailable, or is ErrClosed.
func (s *Store) ask(ctx context.Context, name string, commands ...goredis.Cmder) error {
	if s.closed.Load() {
		return backend.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.servers.Timeout())
	defer cancel()
	if err := s.servers.Ask(ctx, redis.At{Key: []byte(name)}, commands...); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}
