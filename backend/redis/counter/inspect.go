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

// Inspect reads what a key holds, by the clock of its server. It reads the key whole, but for long logs: this is for
// people, not for the request path.
func (s *Store) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	name := string(script.AppendKey(nil, key, limits))
	now, err := s.clock(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(limits) > 0 && limits[0].Algorithm == descriptors.SlidingLog {
		return s.inspectLogs(ctx, name, limits, window.At(now))
	}
	fields := goredis.NewMapStringStringCmd(ctx, "hgetall", name)
	if err := s.ask(ctx, name, fields); err != nil {
		return nil, err
	}
	counts := make([]backend.LimitCount, 0, len(limits))
	for i := range limits {
		counts = append(counts, script.Count(fields.Val(), &limits[i], now))
	}
	return counts, nil
}

// inspectLogs reads the newest instants of logs, and the first that count.
func (s *Store) inspectLogs(ctx context.Context, name string, limits []descriptors.Limit, now window.Instant) (
	[]backend.LimitCount, error) {
	newest, first := make([]*goredis.StringSliceCmd, len(limits)), make([]*goredis.StringSliceCmd, len(limits))
	var commands []goredis.Cmder
	for i := range limits {
		from, to := script.LogRange(&limits[i])
		newest[i] = goredis.NewStringSliceCmd(ctx, "zrevrangebylex", name, to, from, "limit", 0, backend.MaxInstants)
		from = script.LogStart(&limits[i], now)
		first[i] = goredis.NewStringSliceCmd(ctx, "zrangebylex", name, from, to, "limit", 0, 1)
		commands = append(commands, newest[i], first[i])
	}
	if err := s.ask(ctx, name, commands...); err != nil {
		return nil, err
	}
	counts := make([]backend.LimitCount, len(limits))
	for i := range limits {
		var err error
		if counts[i], err = script.CountLog(limits[i], newest[i].Val(), first[i].Val(), now); err != nil {
			return nil, fmt.Errorf("redis: key %q: %w", name, err)
		}
	}
	return counts, nil
}

// clock reads the clock of the server that owns a Redis key, or that of a test.
func (s *Store) clock(ctx context.Context, name string) (time.Time, error) {
	text := s.now()
	if text == "" {
		server := goredis.NewTimeCmd(ctx, "time")
		err := s.ask(ctx, name, server)
		return server.Val(), err
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("redis: the clock shows %q: %w", text, err)
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
