package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/descriptors"
)

// scriptInspector inspects the keys that the script counts: a hash for each descriptor.
type scriptInspector struct{ *Store }

// Inspect reads the windows of a key from its hash, and sends a Look for each log and token bucket. Its time is that of
// the server's clock.
func (s scriptInspector) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	counts := make([]backend.LimitCount, len(limits))
	var fields map[string]string // the hash, read once for all windows
	var now time.Time
	for i := range limits {
		l := &limits[i]
		if l.Algorithm != descriptors.SlidingWindow && l.Algorithm != descriptors.FixedWindow {
			enlarged, out := *l, [1]backend.Decision{}
			if l.Algorithm == descriptors.TokenBucket { // an allowed look returns when the next hit leaks, a denied one when a hit fits
				enlarged.Requests, enlarged.Burst = max(1, l.Requests), descriptors.MaxBurst
			} else {
				enlarged.Requests = descriptors.MaxBurst
			}
			look := backend.Check{Key: key, Limits: []descriptors.Limit{enlarged}, Op: backend.Look}
			if err := backend.DecideAll(ctx, s, []backend.Check{look}, out[:]); err != nil {
				return nil, err
			}
			counts[i] = backend.LimitCount{Limit: *l, Hits: out[0].Before}
			if counts[i].Hits > 0 {
				counts[i].ResetIn = out[0].ResetIn
			}
			continue
		}
		if now.IsZero() {
			var err error
			if fields, now, err = s.read(ctx, string(script.AppendKey(nil, key))); err != nil {
				return nil, err
			}
		}
		counts[i] = script.Count(fields, l, now)
	}
	return counts, nil
}

// read reads a hash, and the time of the clock that it is counted by.
func (s scriptInspector) read(ctx context.Context, name string) (fields map[string]string, now time.Time, err error) {
	hash, server := goredis.NewMapStringStringCmd(ctx, "hgetall", name), goredis.NewTimeCmd(ctx, "time")
	if err := s.Send(ctx, name, server, hash); err != nil {
		return nil, now, err
	}
	if s.now != nil {
		return hash.Val(), s.now(), nil
	}
	return hash.Val(), server.Val(), nil
}

func (s scriptInspector) Reset(ctx context.Context, key []byte) error {
	name := string(script.AppendKey(nil, key))
	return s.Send(ctx, name, goredis.NewIntCmd(ctx, "unlink", name))
}
