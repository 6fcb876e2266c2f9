package script

import (
	"context"
	"flag"
	"fmt"
	"slices"
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
	if err := backend.Validate(checks, out); err != nil {
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
		case fields[headerField(&l)] == "":
		case l.Algorithm == descriptors.SlidingLog:
			n += instants(fields, &l, window.Instant(p.now.Load()))
		case l.Algorithm == descriptors.SlidingWindow, l.Algorithm == descriptors.FixedWindow:
			n += len(buckets(fields, &l, window.Instant(p.now.Load()))[0])
		default:
			n++
		}
	}
	return n
}

// startRedis gives a client of a new server that knows the script.
func startRedis(t testing.TB) *redis.Client {
	t.Helper()
	server := redistest.Single(t, redistest.WithUnixSocket())
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
			open := func(t *testing.T) backendtest.Store {
				if err := client.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				p := &plain{client: client, way: w}
				return backendtest.Store{
					Counter: p,
					SetTime: func(now window.Instant) { p.now.Store(int64(now)) },
					Buckets: func(key []byte, limits []descriptors.Limit) int { return p.buckets(t, key, limits) },
				}
			}
			o := backendtest.Options{Steps: max(part(*steps), 4000), Seed: *seed, Patience: 5 * time.Second}
			backendtest.Run(t, open, o)
			backendtest.RunLeases(t, open, o)
		})
	}
}

// instants counts the instants of a log that count at a time.
func instants(fields map[string]string, l *descriptors.Limit, now window.Instant) (n int) {
	header := fields[headerField(l)]
	oldest, chunks := number56(header[7:]), []string{header[6*7:]}
	for number := number56(header[14:]); number < number56(header[21:]); number++ {
		chunks = append(chunks, fields[string(append56(append(appendName(nil, l), ':'), uint64(number)))])
	}
	for _, chunk := range chunks {
		for at := 7; at < len(chunk); at += 2 * 7 {
			if instant := number56(chunk[at:]); instant >= oldest && window.Instant(instant).Plus(l.Window) > now {
				n++
			}
		}
	}
	return n
}

// way is how a call goes to a server.
type way struct {
	name string
	call func(ctx context.Context, c redis.Cmdable, keys []string, now any, checks ...*backend.Check) *redis.Cmd
}

var (
	sha      = redis.NewScript(Source()).Hash()
	function = Function() // it is made of the whole source, which would keep a call waiting
	// asScript makes all functions at each call.
	asScript = way{"EVALSHA", func(ctx context.Context, c redis.Cmdable, keys []string, now any, checks ...*backend.Check) *redis.Cmd {
		return c.EvalSha(ctx, sha, keys, arguments(now, checks)...)
	}}
	// asFunction keeps them, and what they have read of earlier checks.
	asFunction = way{"FCALL", func(ctx context.Context, c redis.Cmdable, keys []string, now any, checks ...*backend.Check) *redis.Cmd {
		return c.FCall(ctx, function, keys, arguments(now, checks)...)
	}}
)

// ask makes one check of a key.
func (w way) ask(t testing.TB, c redis.Cmdable, key string, now int64, check backend.Check) backend.Decision {
	t.Helper()
	reply, err := w.call(t.Context(), c, []string{key}, now, &check).StringSlice()
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(reply[0], &check)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ends makes a check of a key that somebody has damaged. It is to end, with a decision or an error of its own.
func (w way) ends(t testing.TB, c redis.Cmdable, key string, now int64, check backend.Check) {
	t.Helper()
	if err := w.call(t.Context(), c, []string{key}, now, &check).Err(); err != nil {
		t.Fatalf("%+v failed as a whole, or did not end: %v", check, err)
	}
}

// arguments lists each question once.
func arguments(now any, checks []*backend.Check) []any {
	var asked []byte
	args, places := []any{now, nil}, make(map[string]byte)
	for _, c := range checks {
		question := string(AppendArg(nil, c))
		if places[question] == 0 {
			args = append(args, question)
			places[question] = byte(len(places) + 1)
		}
		asked = append(asked, places[question])
	}
	args[1] = asked
	return args
}

// Between now and what was counted lie more than a million chunks of a fine precision, and hardly any of them is there.
func TestScriptFollowsAFarClockStepBack(t *testing.T) {
	client, key := startRedis(t), string(AppendKey(nil, []byte("key")))
	limit := backendtest.NewLimit(t, 0, descriptors.Minute, 2, descriptors.SlidingWindow, 50*time.Millisecond)
	check := backend.Check{Limits: []descriptors.Limit{limit}, Hits: 1, Charge: descriptors.ChargeAlways}
	now := time.UnixMicro(1838965268050974)
	for i, step := range []struct {
		move   time.Duration
		before uint64
	}{{0, 0}, {13 * time.Second, 1}, {7 * time.Second, 2}, {6068 * time.Hour, 0}, {-4912 * time.Hour, 1}, {time.Second, 2}} {
		now = now.Add(step.move)
		if d := asFunction.ask(t, client, key, now.UnixMicro(), check); d.Before != step.before {
			t.Fatalf("step %d, %v later: %+v; want %d hits before", i, step.move, d, step.before)
		}
	}
}

// A clock that stands at its beginning, as one without a battery does, is a clock: buckets may be number 0.
func TestWindowsCountFromBucketZero(t *testing.T) {
	client := startRedis(t)
	limits := []descriptors.Limit{backendtest.NewLimit(t, 9, descriptors.Year, 4, descriptors.SlidingWindow, time.Hour)}
	for hour := range part(24 * 16) {
		counts := []window.State{window.NewState(&limits[0])}
		now, key := window.Instant(time.Duration(hour)*time.Hour/time.Microsecond), string(AppendKey(nil, fmt.Append(nil, hour)))
		for i, op := range []backend.Op{backend.Count, backend.Count, backend.Refund} {
			c := backend.Check{Limits: limits, Op: op, Hits: uint64(2 + i)}
			want := window.Decide(counts, &c, now)
			if d := asFunction.ask(t, client, key, int64(now), c); d.Before != want.Before || d.Remaining != want.Remaining {
				t.Fatalf("begun in hour %d, check %d: %+v; want %+v", hour, i+1, d, want)
			}
			now = now.Plus(4000 * time.Hour)
		}
	}
}

// Redis would have to remove all keys at once whose windows end together.
func TestKeysExpireAtDifferentTimes(t *testing.T) {
	client, hit := startRedis(t), backend.Check{Limits: []descriptors.Limit{
		backendtest.NewLimit(t, 10, descriptors.Hour, 1, descriptors.FixedWindow, 0)}, Hits: 1}
	var keys []string
	for i := range 100 {
		keys = append(keys, string(AppendKey(nil, fmt.Appendf(nil, "4:shop4:user%d", i))))
	}
	checks := slices.Repeat([]*backend.Check{&hit}, len(keys))
	if err := asFunction.call(t.Context(), client, keys, begin, checks...).Err(); err != nil {
		t.Fatal(err)
	}
	ends := make(map[time.Duration]bool)
	for _, key := range keys {
		ends[client.PExpireTime(t.Context(), key).Val()] = true
	}
	if len(ends) < len(keys)/2 {
		t.Errorf("%d keys whose windows end together go at only %d different milliseconds", len(keys), len(ends))
	}
}
