package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/counter"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var _ backend.Inspector = (*Store)(nil)

// maxRedirects is how often an operator's question follows a redirect.
const maxRedirects = 5

// Inspect tells what a key holds, by the clock of its server. It reads the key whole, but for long logs: this is for
// people, not for the request path.
func (s *Store) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	name := string(counter.AppendKey(nil, key, limits))
	if len(limits) > 0 && limits[0].Algorithm == descriptors.SlidingLog {
		return s.inspectLogs(ctx, name, limits)
	}
	var fields *goredis.MapStringStringCmd
	var clock *goredis.TimeCmd
	err := s.onOwner(ctx, name, func(p goredis.Pipeliner) {
		fields, clock = p.HGetAll(ctx, name), p.Time(ctx)
	})
	if err != nil {
		return nil, err
	}
	now, err := s.clock(clock)
	if err != nil {
		return nil, err
	}
	counts := make([]backend.LimitCount, 0, len(limits))
	for i := range limits {
		counts = append(counts, counter.Count(fields.Val(), &limits[i], now))
	}
	return counts, nil
}

// inspectLogs reads the newest instants of logs, and then the first that count.
func (s *Store) inspectLogs(ctx context.Context, name string, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	newest, first := make([]*goredis.StringSliceCmd, len(limits)), make([]*goredis.StringSliceCmd, len(limits))
	var clock *goredis.TimeCmd
	err := s.onOwner(ctx, name, func(p goredis.Pipeliner) {
		for i := range limits {
			from, to := counter.LogRange(&limits[i])
			newest[i] = p.ZRevRangeByLex(ctx, name, &goredis.ZRangeBy{Min: from, Max: to, Count: backend.MaxInstants})
		}
		clock = p.Time(ctx)
	})
	if err != nil {
		return nil, err
	}
	now, err := s.clock(clock)
	if err != nil {
		return nil, err
	}
	err = s.onOwner(ctx, name, func(p goredis.Pipeliner) {
		for i := range limits {
			_, to := counter.LogRange(&limits[i])
			from := counter.LogStart(&limits[i], window.At(now))
			first[i] = p.ZRangeByLex(ctx, name, &goredis.ZRangeBy{Min: from, Max: to, Count: 1})
		}
	})
	if err != nil {
		return nil, err
	}
	counts := make([]backend.LimitCount, len(limits))
	for i := range limits {
		counts[i], err = counter.CountLog(limits[i], newest[i].Val(), first[i].Val(), window.At(now))
		if err != nil {
			return nil, fmt.Errorf("redis: key %q: %w", name, err)
		}
	}
	return counts, nil
}

// clock is the time of a server, or of a test.
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
	for _, name := range counter.Keys(key) {
		if err := s.onOwner(ctx, name, func(p goredis.Pipeliner) { p.Unlink(ctx, name) }); err != nil {
			return err
		}
	}
	return nil
}

// onOwner runs commands on the server that owns a Redis key. The first is about the key, and all may safely run twice.
// It takes the store's timeout at most. Its error wraps ErrUnavailable, or is ErrClosed.
func (s *Store) onOwner(ctx context.Context, name string, queue func(goredis.Pipeliner)) error {
	if s.closed.Load() {
		return backend.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	client, err := s.topology.shard([]byte(name))
	asking := false
	for try := 1; err == nil; try++ {
		pipe := client.Pipeline()
		if asking {
			_ = pipe.Process(ctx, goredis.NewStatusCmd(ctx, "asking")) // queues it
		}
		queue(pipe)
		if _, err = pipe.Exec(ctx); err == nil {
			return nil
		}
		fate, addr := judge(err, true)
		if s.redirects == nil || fate != moved && fate != asked || try > maxRedirects {
			break
		}
		if asking = fate == asked; !asking {
			s.redirects.reload()
		}
		client, err = s.redirects.at(client, addr)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
