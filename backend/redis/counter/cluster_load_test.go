package counter

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// A slot moves to another primary and back while it is counted in. Of its keys some are there before, others are new in
// each phase: the old owner sends those on with ASK from the first moment.
func TestASlotMovesUnderLoad(t *testing.T) {
	set := redistest.Cluster(t)
	s := storeAt(t, redis.Config{Type: redis.Cluster, URL: set.Nodes[0].Addr, Timeout: ample})

	var n tally
	var phase, next atomic.Int64
	stop := keepBusy(8, func(client int) {
		// Keys of the slot that moves, old and new, and one of another.
		i := next.Add(1)
		took, err := decide(s, ample, fmt.Sprint("slot/old", i%20),
			fmt.Sprint("slot/new", phase.Load(), " ", i%10), fmt.Sprint("other", client))
		n.note(t, err, took)
	})
	slot := set.SlotOf(t, plainKey("slot/"))
	from := set.NodeOf(t, plainKey("slot/"))
	to := set.Primaries(t)[0]
	if to == from {
		to = set.Primaries(t)[1]
	}
	time.Sleep(100 * time.Millisecond)
	during := func(p redistest.Phase) {
		before := n.answered.Load()
		phase.Add(1)
		wait(t, fmt.Sprintf("calls are answered while the slot is %q", p), func() bool {
			return n.answered.Load() > before+100
		})
	}
	set.MigrateSlot(t, slot, from, to, during)
	set.MigrateSlot(t, slot, to, from, during)
	stop()

	t.Logf("%d calls of three hits, the slowest %v; %+v", n.answered.Load(), time.Duration(n.slowest.Load()), s.Stats())
	if n.unknown.Load()+n.away.Load() > 0 {
		t.Errorf("%d calls failed; a slot that moves is no reason to", n.unknown.Load())
	}
	if got := countedIn(t, set); got != 3*n.answered.Load() {
		t.Errorf("%d hits are counted, and %d were answered; want the same", got, 3*n.answered.Load())
	}
	if s.Stats().Redirects == 0 {
		t.Error("no check was redirected: the load did not meet the slot while it moved")
	}
}

// countedIn is what all primaries hold for keys of the plain script.
func countedIn(t *testing.T, set *redistest.ClusterSet) (sum int64) {
	t.Helper()
	ctx := context.Background()
	for _, node := range set.Primaries(t) {
		keys := node.Client().Scan(ctx, 0, "t:*", 1000).Iterator()
		for keys.Next(ctx) {
			n, err := node.Client().Get(ctx, keys.Val()).Int64()
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		if err := keys.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return sum
}
