package counter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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
	if m, plain := s.method.(*incremental); plain {
		return m.inspect(ctx, key, limits)
	}
	name := string(script.AppendKey(nil, key))
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

// inspectLogs reads the headers of logs, and of each the chunks that hold its newest instants.
func (s *Store) inspectLogs(ctx context.Context, name string, limits []descriptors.Limit, now window.Instant) (
	[]backend.LimitCount, error) {
	fields := make([]string, len(limits))
	for i := range limits {
		fields[i] = script.HeaderField(&limits[i])
	}
	headers, err := s.fields(ctx, name, fields)
	if err != nil {
		return nil, err
	}
	counts := make([]backend.LimitCount, len(limits))
	for i := range limits {
		if counts[i], err = s.inspectLog(ctx, name, &limits[i], headers[i], now); err != nil {
			return nil, fmt.Errorf("redis: key %q: %w", name, err)
		}
	}
	return counts, nil
}

// inspectLog counts a log of which the header has been read.
func (s *Store) inspectLog(ctx context.Context, name string, l *descriptors.Limit, header string, now window.Instant) (
	c backend.LimitCount, err error) {
	log, err := script.ReadLog(header, l)
	if err != nil {
		return c, err
	}
	chunk := func(number uint64) (string, error) {
		found, err := s.fields(ctx, name, []string{log.Chunk(number)})
		return strings.Join(found, ""), err
	}
	from, to := log.Older(now)
	for to > from { // the first that has not left, found by halving
		middle := from + (to-from)/2
		text, err := chunk(middle)
		if err != nil {
			return c, err
		}
		if log.Left(text, now) {
			from = middle + 1
		} else {
			to = middle
		}
	}
	first, last := log.Newest()
	var older string
	if from < first {
		if older, err = chunk(from); err != nil {
			return c, err
		}
	}
	var names []string
	for number := first; number < last; number++ {
		names = append(names, log.Chunk(number))
	}
	newest, err := s.fields(ctx, name, names)
	if err != nil {
		return c, err
	}
	return log.Count(older, newest, now)
}

// fields reads fields of a hash, "" for those that are not there.
func (s *Store) fields(ctx context.Context, name string, fields []string) ([]string, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	args := []any{"hmget", name}
	for _, field := range fields {
		args = append(args, field)
	}
	command := goredis.NewSliceCmd(ctx, args...)
	if err := s.ask(ctx, name, command); err != nil {
		return nil, err
	}
	values := make([]string, len(fields))
	for i, value := range command.Val() {
		values[i], _ = value.(string) // nil where there is none
	}
	return values, nil
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
	if m, plain := s.method.(*incremental); plain {
		return m.reset(ctx, key)
	}
	name := string(script.AppendKey(nil, key))
	return s.ask(ctx, name, goredis.NewIntCmd(ctx, "unlink", name))
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
