package script

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/descriptors"
)

// A script that does not end blocks its server for everybody. Whatever someone did to the fields of a key, each check
// of it must end, with a decision or an error of its own.
func TestADamagedKeyHangsNothing(t *testing.T) {
	client := startRedis(t)
	limits := []descriptors.Limit{
		backendtest.NewLimit(t, 50, descriptors.Day, 1, descriptors.SlidingWindow, 0),
		backendtest.NewLimit(t, 60, descriptors.Hour, 1, descriptors.SlidingWindow, time.Second),
	}
	r := rand.New(rand.NewPCG(21, 22))
	now := int64(begin)
	for round := range part(150) {
		key := string(AppendKey(nil, []byte{byte(round), 1}))
		for range 20 {
			now += r.Int64N(10 * 60e6)
			asFunction.ends(t, client, key, now, backend.Check{Limits: limits, Hits: 1 + r.Uint64N(3)})
		}
		damage(t, client, key, r)
		for range 20 {
			now += r.Int64N(4*3600e6) - 600e6
			asFunction.ends(t, client, key, now, backend.Check{Limits: limits, Op: backend.Op(r.IntN(3)), Hits: 1 + r.Uint64N(60)})
		}
	}
}

// Of a log chunks may be missing, and others may be torn.
func TestADamagedLogHangsNothing(t *testing.T) {
	client := startRedis(t)
	c := backend.Check{Limits: []descriptors.Limit{
		backendtest.NewLimit(t, 300, descriptors.Hour, 1, descriptors.SlidingLog, 0),
		backendtest.NewLimit(t, 400, descriptors.Day, 1, descriptors.SlidingLog, 0),
	}}
	key := string(AppendKey(nil, []byte("damaged")))
	r := rand.New(rand.NewPCG(25, 26))
	now := int64(begin)
	for step := range part(3000) {
		now += r.Int64N(20e6) - 1e6
		c.Op, c.Hits = backend.Count, 1+r.Uint64N(3)
		if r.IntN(4) == 0 {
			c.Op, c.Hits = backend.Op(r.IntN(3)), r.Uint64N(300)
		}
		asFunction.ends(t, client, key, now, c)
		switch step % 20 {
		case 3:
			damage(t, client, key, r)
		case 7:
			name := []string{"l2s0", "lh8g"}[r.IntN(2)]
			header := client.HGet(t.Context(), key, name).Val()
			if torn := []byte(header[:r.IntN(len(header)+1)]); len(torn) > 0 {
				torn[r.IntN(len(torn))] = byte(r.IntN(256))
				client.HSet(t.Context(), key, name, torn)
			}
		case 17:
			client.Del(t.Context(), key)
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
		case len(value) == 42 || strings.HasPrefix(name, "l") && !strings.Contains(name, ":") || r.IntN(2) == 0:
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
