package counter

import (
	"sync/atomic"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
)

func TestInspect(t *testing.T) {
	for _, kind := range []Type{Single, Cluster} {
		t.Run(kind.String(), func(t *testing.T) {
			now := new(atomic.Int64)
			s := opened(t, kind, topologies[kind](t), now)
			backendtest.Inspection(t, backendtest.Inspected{Counter: s, Inspector: s,
				SetTime: func(at window.Instant) { now.Store(int64(at)) }})
		})
	}
}
