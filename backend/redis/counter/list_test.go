package counter

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter/incr"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

func TestList(t *testing.T) {
	for _, kind := range types {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			now := new(atomic.Int64)
			s := opened(t, kind, start(t, kind), now)
			backendtest.Listing(t, backendtest.Lists{Counter: s, Inspector: s, Lister: s,
				SetTime: func(at window.Instant) { now.Store(int64(at)) }})
		})
	}
}

func TestPairList(t *testing.T) {
	t.Parallel()
	now := new(atomic.Int64)
	p := openedPair(t, now, redis.Config{URL: redistest.Single(t).Addr}, redis.Config{URL: redistest.Single(t).Addr})
	backendtest.Listing(t, backendtest.Lists{Counter: p, Inspector: p, Lister: p,
		SetTime: func(at window.Instant) { now.Store(int64(at)) },
		Key: func(i int) ([]byte, []descriptors.Limit) {
			unit := []descriptors.Unit{descriptors.Second, descriptors.Hour}[i%2]
			return fmt.Appendf(nil, "%d", i), limitsPer(t, 500, unit)
		}})
}

func TestMixedListsKeysOfBothKinds(t *testing.T) {
	t.Parallel()
	now := new(atomic.Int64)
	m := openedMixed(t, redis.Config{URL: redistest.Single(t).Addr, Timeout: time.Minute}, now, incr.Keys{Jitter: 300})
	backendtest.Listing(t, backendtest.Lists{Counter: m, Inspector: m, Lister: m,
		SetTime: func(at window.Instant) { now.Store(int64(at)) },
		Key: func(i int) ([]byte, []descriptors.Limit) {
			if i%3 == 0 {
				return fmt.Appendf(nil, "%d", i), limitsPer(t, 500, descriptors.Minute)
			}
			return ofRatelimit(fmt.Sprintf("shop_user_%d_", i)), hourly(t, 500)
		}})
}
