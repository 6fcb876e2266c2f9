package script

import (
	"context"
	"flag"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var (
	steps = flag.Int("steps", 20_000, "random steps of the conformance suite")
	seed  = flag.Uint64("seed", 1, "seed of the conformance suite")
)

// part is how much of a walk is played: a tenth in the short form.
func part(steps int) int {
	if testing.Short() {
		return steps / 10
	}
	return steps
}

// plain is the shortest way to the script: one call a check, one server.
type plain struct {
	client *redis.Client
	way    way
	now    atomic.Int64
	closed atomic.Bool
}

func (p *plain) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := backend.Valid(checks, out); err != nil {
		return err
	}
	if p.closed.Load() {
		return backend.ErrClosed
	}
	for i := range checks {
		c := &checks[i]
		key := string(AppendKey(nil, c.Key))
		reply, err := p.way.call(ctx, p.client, []string{key}, p.now.Load(), c).StringSlice()
		if err != nil {
			return err
		}
		if out[i], err = Decode(reply[0], c); err != nil {
			return err
		}
	}
	return nil
}

func (p *plain) Close() error {
	p.closed.Store(true)
	return nil
}

// buckets counts the finest buckets that a key holds of limits, and the instants of its logs.
func (p *plain) buckets(t *testing.T, key []byte, limits []descriptors.Limit) int {
	fields, err := p.client.HGetAll(t.Context(), string(AppendKey(nil, key))).Result()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range limits {
		switch {
		case fields[HeaderField(&l)] == "":
		case l.Algorithm == descriptors.SlidingLog:
			n += len(logOf(t, fields, &l, window.Instant(p.now.Load())).Levels[0])
		case l.Algorithm == descriptors.TokenBucket:
			n += int(min(1, Count(fields, &l, time.UnixMicro(p.now.Load())).Hits))
		default:
			n += len(Buckets(fields, &l, window.Instant(p.now.Load()))[0])
		}
	}
	return n
}

// startRedis gives a client of a new server that knows the script.
func startRedis(t testing.TB, options ...redistest.Option) *redis.Client {
	t.Helper()
	server := redistest.Single(t, append(options, redistest.WithUnixSocket())...)
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: server.Socket, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	if err := client.ScriptLoad(t.Context(), Source()).Err(); err != nil {
		t.Fatalf("the script does not load: %v", err)
	}
	if err := client.FunctionLoad(t.Context(), Library()).Err(); err != nil && !strings.Contains(err.Error(), "unknown command") {
		t.Fatalf("the library does not load: %v", err)
	}
	return client
}

func TestConformance(t *testing.T) {
	for _, w := range []way{asScript, asFunction} {
		t.Run(w.name, func(t *testing.T) {
			client := startRedis(t)
			backendtest.Run(t, func(t *testing.T) backendtest.Store {
				if err := client.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				p := &plain{client: client, way: w}
				return backendtest.Store{
					Counter: p,
					SetTime: func(now window.Instant) { p.now.Store(int64(now)) },
					Buckets: func(key []byte, limits []descriptors.Limit) int { return p.buckets(t, key, limits) },
				}
			}, backendtest.Options{Steps: max(part(*steps), 4000), Seed: *seed, Patience: 5 * time.Second})
		})
	}
}

// logOf reads a log out of the fields of its key.
func logOf(t *testing.T, fields map[string]string, l *descriptors.Limit, now window.Instant) backend.LimitCount {
	t.Helper()
	c, err := CountLog(l, now, func(names ...string) (values []string, err error) {
		for _, name := range names {
			values = append(values, fields[name])
		}
		return values, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
