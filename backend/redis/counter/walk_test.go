package counter

import (
	"context"
	"flag"
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

var walkSteps = flag.Int("walk", 50_000, "random steps of the script beside the literal buckets")

// TestTheScriptAgreesStepForStep sends histories of many calls in one go.
func TestTheScriptAgreesStepForStep(t *testing.T) {
	agree(t, *walkSteps)
}

// The script uses nothing that only the Redis on PATH has.
func TestTheScriptRunsOnOtherReleases(t *testing.T) {
	for _, release := range redistest.Releases() {
		t.Run(release, func(t *testing.T) {
			agree(t, *walkSteps/5, redistest.WithRelease(release))
			conform(t, *steps/5, redistest.WithRelease(release))
		})
	}
}

// agree walks the script on servers of one kind, one for each processor: a server runs one script at a time.
func agree(t *testing.T, steps int, options ...redistest.Option) {
	t.Helper()
	var players []backendtest.Player
	for range runtime.GOMAXPROCS(0) {
		client := startRedis(t, options...)
		player := func(h backendtest.History) ([]backend.Decision, error) { return play(t.Context(), client, h) }
		players = append(players, player, player) // while one waits the other one reckons
	}
	backendtest.Agree(t, backendtest.Walks{Steps: steps, Seed: *seed, Keys: 16}, players...)
}

// play sends a history as one transaction. The server's own clock stands still in it, and each key is made to last
// before it is asked again: time is the history's alone.
func play(ctx context.Context, client *redis.Client, h backendtest.History) ([]backend.Decision, error) {
	pipe := client.TxPipeline()
	var replies []*redis.Cmd
	for asks := range h.Calls() {
		keys, args := make([]string, len(asks)), []any{int64(asks[0].Now)}
		for i := range asks {
			keys[i] = string(AppendKey(nil, asks[i].Check.Key))
			args = append(args, AppendArg(nil, &asks[i].Check))
		}
		replies = append(replies, pipe.EvalSha(ctx, SHA(), keys, args...))
		for _, key := range keys {
			pipe.Persist(ctx, key)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
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
