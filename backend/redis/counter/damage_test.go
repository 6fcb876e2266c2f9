package counter

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/descriptors"
)

// A script that does not end blocks its server for everybody. Whatever someone did to the fields of a key, each check of
// it must end, with a decision or an error of its own.
func TestADamagedKeyHangsNothing(t *testing.T) {
	client := startRedis(t)
	limits := []descriptors.Limit{
		backendtest.NewLimit(t, 50, descriptors.Day, 1, descriptors.SlidingWindow, 0),
		backendtest.NewLimit(t, 60, descriptors.Hour, 1, descriptors.SlidingWindow, time.Second),
	}
	r := rand.New(rand.NewPCG(21, 22))
	now := int64(begin)
	ask := func(key []byte, op backend.Op, hits uint64) {
		t.Helper()
		c := backend.Check{Key: key, Limits: limits, Op: op, Hits: hits}
		cmd := client.EvalSha(t.Context(), SHA(), []string{string(AppendKey(nil, key))}, now, AppendArg(nil, &c))
		if cmd.Err() != nil {
			t.Fatalf("the call failed as a whole, or did not end: %v", cmd.Err())
		}
	}
	for round := range 150 {
		key := []byte{byte(round), 1}
		for range 20 {
			now += r.Int64N(10 * 60e6)
			ask(key, backend.Count, 1+r.Uint64N(3))
		}
		damage(t, client, string(AppendKey(nil, key)), r)
		for range 20 {
			now += r.Int64N(4*3600e6) - 600e6
			ask(key, backend.Op(r.IntN(3)), 1+r.Uint64N(60))
		}
	}
}

// damage deletes or zeroes some fields of a key, but no header.
func damage(t *testing.T, client *redis.Client, key string, r *rand.Rand) {
	t.Helper()
	fields, err := client.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		switch {
		case len(value) == 42 || r.IntN(2) == 0:
		case r.IntN(2) == 0:
			err = client.HDel(t.Context(), key, name).Err()
		default:
			err = client.HSet(t.Context(), key, name, make([]byte, len(value))).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
