package counter

import (
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/window"
)

func TestInspect(t *testing.T) {
	for _, kind := range []redis.Type{redis.Single, redis.Cluster} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			now := new(atomic.Int64)
			s := opened(t, kind, start(t, kind), now)
			backendtest.Inspection(t, backendtest.Inspected{Counter: s, Inspector: s,
				SetTime: func(at window.Instant) { now.Store(int64(at)) }})
		})
	}
}
