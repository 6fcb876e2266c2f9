package dropin_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// The incumbent is played by what it writes: INCRBY and EXPIRE on its key, where a reply above the limit is a denial.
func TestHalfTheTrafficOnTheOtherProgramIsOneCountUnderItsRights(t *testing.T) {
	t.Parallel()
	awaitRoomInHour()
	const limit, callers = 3000, 8
	redis := redistest.Single(t, redistest.WithACL("limiter", "secret", "~*", "-@all", "+incrby", "+expire", "+get", "+ping", "+hello"))
	r := startReplica(t, weirBinary, map[string]string{"config.yaml": fmt.Sprintf(`
domain: shop
descriptors:
  - key: plan
    value: basic
    descriptors:
      - key: user
        rate_limit: { unit: hour, requests_per_unit: %d }
`, limit)}, "REDIS_URL="+redis.Addr, "REDIS_AUTH=limiter:secret")
	r.ready(t)

	hour := int64(time.Hour / time.Second)
	key := fmt.Sprint("shop_plan_basic_user_ann_", time.Now().Unix()/hour*hour)
	var weirs, others atomic.Int64
	var running sync.WaitGroup
	for range callers {
		client := ratelimit(t, r.grpc)
		running.Go(func() {
			for range limit / callers {
				switch verdict, err := ask(client, "shop", describe("plan", "basic", "user", "ann")); {
				case err != nil:
					t.Errorf("asking weir: %v", err)
					return
				case verdict == "OK: OK":
					weirs.Add(1)
				}
			}
		})
		running.Go(func() {
			for range limit / callers {
				pipe := redis.Client().Pipeline()
				count := pipe.IncrBy(t.Context(), key, 1)
				pipe.Expire(t.Context(), key, time.Hour)
				if _, err := pipe.Exec(t.Context()); err != nil {
					t.Errorf("counting as envoyproxy/ratelimit does: %v", err)
					return
				}
				if count.Val() <= limit {
					others.Add(1)
				}
			}
		})
	}
	running.Wait()
	t.Logf("of %d hits by each, %d were admitted by weir and %d by the other", limit, weirs.Load(), others.Load())
	if got := weirs.Load() + others.Load(); got != limit || weirs.Load() == 0 || others.Load() == 0 {
		t.Errorf("%d hits were admitted by weir and %d by the other, want %d in all, and some by each", weirs.Load(), others.Load(), limit)
	}
	if n := counted(t, redis, "shop_"); n != 2*limit {
		t.Errorf("Redis counts %d, want %d: one count, and each hit once", n, 2*limit)
	}
	keys, err := redis.Client().Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 || keys[0] != key {
		t.Errorf("Redis holds %q (%v), want only %s: weir writes nothing unasked", keys, err, key)
	}
	refused, err := redis.Client().ACLLog(t.Context(), 10).Result()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis has refused %+v (%v), want nothing that weir asks for to need more rights", refused, err)
	}
}
