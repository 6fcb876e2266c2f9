package script

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var walkSteps = flag.Int("walk", 20_000, "random steps of the script beside the model")

// TestTheScriptAgreesStepForStep sends histories of many calls in one go: on other releases fewer, and in the short form
// none, where package counter goes a few steps.
func TestTheScriptAgreesStepForStep(t *testing.T) {
	t.Parallel()
	for _, release := range releases(t) {
		steps := part(*walkSteps)
		if release != "" {
			steps /= 10
		}
		ways, options := waysOn(release)
		for _, w := range ways {
			t.Run(release+w.name, func(t *testing.T) {
				var players []backendtest.Player
				for range runtime.GOMAXPROCS(0) { // a server runs one script at a time
					client := startRedis(t, options...)
					player := func(h backendtest.History) ([]backend.Decision, error) { return play(t.Context(), client, w, h) }
					players = append(players, player, player) // while one waits the other one reckons
				}
				backendtest.Agree(t, backendtest.Walks{Steps: steps, Seed: *seed, Keys: 16}, players...)
			})
		}
	}
}

// play sends a history as one transaction. The server's own clock stands still in it, and each key is made to last
// before it is asked again: time is the history's alone.
func play(ctx context.Context, client *redis.Client, w way, h backendtest.History) ([]backend.Decision, error) {
	pipe := client.TxPipeline()
	var replies []*redis.Cmd
	for asks := range h.Calls() {
		keys, checks := make([]string, len(asks)), make([]*backend.Check, len(asks))
		for i := range asks {
			keys[i] = string(AppendKey(nil, asks[i].Check.Key))
			checks[i] = &asks[i].Check
		}
		replies = append(replies, w.call(ctx, pipe, keys, int64(asks[0].Now), checks...))
		for _, key := range keys {
			pipe.Persist(ctx, key)
		}
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	decisions := make([]backend.Decision, 0, len(h.Asks))
	for _, reply := range replies {
		texts, err := reply.StringSlice()
		if err != nil {
			return decisions, err
		}
		for _, text := range texts {
			d, err := Decode(text, &h.Asks[len(decisions)].Check)
			if err != nil {
				return decisions, err
			}
			decisions = append(decisions, d)
		}
	}
	return decisions, nil
}

// Between now and what was counted lie more than a million chunks of a fine precision, and hardly any of them is there.
func TestAClockThatStepsBackFarIsFollowed(t *testing.T) {
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
func TestWindowsCountFromTheFirstBucketOfAllOn(t *testing.T) {
	client := startRedis(t)
	limits := []descriptors.Limit{backendtest.NewLimit(t, 9, descriptors.Year, 4, descriptors.SlidingWindow, time.Hour)}
	for hour := range part(24 * 16) {
		counts := []window.Count{window.NewState(&limits[0])}
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
