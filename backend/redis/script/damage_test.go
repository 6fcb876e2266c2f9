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
func TestDamagedKeyNeverBlocksRedis(t *testing.T) {
	client := startRedis(t)
	limit := func(n uint64, u descriptors.Unit, a descriptors.Algorithm, p time.Duration) descriptors.Limit {
		return backendtest.NewLimit(t, n, u, 1, a, p)
	}
	for name, limits := range map[string][]descriptors.Limit{
		"windows": {
			limit(50, descriptors.Day, descriptors.SlidingWindow, 0),
			limit(60, descriptors.Hour, descriptors.SlidingWindow, time.Second),
		},
		"logs": {
			limit(300, descriptors.Hour, descriptors.SlidingLog, 0),
			limit(400, descriptors.Day, descriptors.SlidingLog, 0),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := rand.New(rand.NewPCG(21, 22)), int64(begin)
			for round := range part(300) {
				key := string(AppendKey(nil, []byte{byte(round), byte(round >> 8)}))
				for range 20 {
					now += r.Int64N(10 * 60e6)
					asFunction.ends(t, client, key, now, backend.Check{Limits: limits, Hits: 1 + r.Uint64N(3)})
				}
				damage(t, client, key, r)
				for range 20 {
					now += r.Int64N(4*3600e6) - 600e6
					c := backend.Check{Limits: limits, Op: backend.Op(r.IntN(3)), Hits: 1 + r.Uint64N(60)}
					asFunction.ends(t, client, key, now, c)
				}
			}
		})
	}
}

// damage deletes or zeroes some fields of a key, and tears the headers of logs. It leaves those of windows.
func damage(t *testing.T, client *redis.Client, key string, r *rand.Rand) {
	t.Helper()
	fields, err := client.HGetAll(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		field := make([]byte, len(value))
		if strings.HasPrefix(name, "l") && !strings.Contains(name, ":") {
			field = []byte(value)[:1+r.IntN(len(value))]
			field[r.IntN(len(field))] = byte(r.IntN(256))
		}
		switch {
		case len(value) == 42 || r.IntN(2) == 0:
		case r.IntN(2) == 0:
			err = client.HDel(t.Context(), key, name).Err()
		default:
			err = client.HSet(t.Context(), key, name, field).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
