package redistest

import (
	"context"
	"fmt"
	"net"
	"testing"
)

// Phase is how far a slot's migration has come.
type Phase string

// The phases of a migration, in order.
const (
	// Migrating: both nodes know of the migration, all keys are still where they were. Keys that the slot does not have
	// yet are now answered with ASK.
	Migrating Phase = "migrating"
	// HalfMoved: half of the slot's keys, rounded down, have moved. The old owner answers them with ASK, and TRYAGAIN
	// to commands that name keys on both sides.
	HalfMoved Phase = "half moved"
	// AllMoved: all keys have moved, and the old owner still owns the slot.
	AllMoved Phase = "all moved"
	// Done: the new node owns the slot, all nodes know it, and the old owner answers MOVED.
	Done Phase = "done"
)

// MigrateSlot moves a slot from its owner to another primary, as redis-cli does. It calls during at each phase, and
// goes on when it returns.
func (c *ClusterSet) MigrateSlot(t testing.TB, slot int, from, to *Server, during func(Phase)) {
	t.Helper()
	c.setSlot(t, to, slot, "importing", from)
	c.setSlot(t, from, slot, "migrating", to)
	during(Migrating)

	n, err := from.client.ClusterCountKeysInSlot(context.Background(), slot).Result()
	if err != nil {
		t.Fatal(err)
	}
	from.moveKeys(t, slot, int(n/2), to)
	during(HalfMoved)

	for from.moveKeys(t, slot, 1000, to) > 0 { // more may have come
	}
	during(AllMoved)

	c.setSlot(t, to, slot, "node", to)
	c.setSlot(t, from, slot, "node", to)
	c.Await(t)
	during(Done)
}

func (c *ClusterSet) setSlot(t testing.TB, node *Server, slot int, state string, other *Server) {
	t.Helper()
	if err := node.client.Do(context.Background(), "cluster", "setslot", slot, state, c.ids[other]).Err(); err != nil {
		t.Fatalf("telling %s that slot %d is %s %s: %v", node.name, slot, state, other.name, err)
	}
}

// moveKeys moves up to n keys of a slot and says how many.
func (s *Server) moveKeys(t testing.TB, slot, n int, to *Server) int {
	t.Helper()
	ctx := context.Background()
	keys, err := s.client.ClusterGetKeysInSlot(ctx, slot, n).Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) == 0 {
		return 0
	}
	host, port, _ := net.SplitHostPort(to.Addr)
	args := []any{"migrate", host, port, "", 0, patience.Milliseconds(), "keys"}
	for _, key := range keys {
		args = append(args, key)
	}
	if err := s.client.Do(ctx, args...).Err(); err != nil {
		t.Fatal(fmt.Errorf("moving %d keys of slot %d from %s to %s: %w", len(keys), slot, s.name, to.name, err))
	}
	return len(keys)
}
