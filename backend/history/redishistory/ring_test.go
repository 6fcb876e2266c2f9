package redishistory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// nodeOf is the name of the node that a store has a partition on.
func nodeOf(t *testing.T, s *Store, p history.Partition) (string, error) {
	r, err := s.route(t.Context(), p)
	if r == nil {
		return "", err
	}
	return r.node, err
}

func TestRingPartitionsArePlacedOnceAndEvenly(t *testing.T) {
	nodes := slices.Clone(shared(t, topology.Ring).Servers)
	s := opened(t, ringOf(nodes...), fixed(start), nil)
	slices.Reverse(nodes)
	other := opened(t, ringOf(nodes...), fixed(start), nil)
	held := make(map[string]int)
	for _, p := range new(history.Query).Partitions() {
		a, failed := nodeOf(t, s, p)
		b, err := nodeOf(t, other, p)
		if held[a]++; a != b || errors.Join(failed, err) != nil {
			t.Fatalf("partition %d is on %s, and with the nodes in another order on %s, %v", p, a, b, errors.Join(failed, err))
		}
	}
	for _, n := range nodes {
		if content := n.Client().Get(t.Context(), placementKey).Val(); strings.Count(content, ":") != 3 {
			t.Errorf("node %s has the placement %q, want the names of all three", n.Addr, content)
		}
		if held := held[n.Addr]; held < 55 || held > 115 {
			t.Errorf("node %s holds %d of 256 partitions, want about a third", n.Addr, held)
		}
	}
}

// The version before had no table: each node has the names of all, by which partitions are placed.
func TestRingOfNamesIsReadAndMoved(t *testing.T) {
	old := rendezvous([]string{"redis-1:6379", "redis-2:6379", "redis-3:6379"}) // as that version placed them
	if want := []int{2, 1, 0, 2, 2, 1, 0, 2, 1, 2, 1, 1, 1, 1, 2, 1}; !slices.Equal(old.NodeOf[:16], want) {
		t.Errorf("the first partitions of a ring are at %v, and were at %v", old.NodeOf[:16], want)
	}
	nodes := shared(t, topology.Ring).Servers
	names := slices.Sorted(slices.Values([]string{nodes[0].Addr, nodes[1].Addr}))
	list := fmt.Sprintf("[%q,%q]", names[0], names[1])
	c := &client{counted: make(map[history.ID]uint64)}
	for _, n := range nodes[:2] {
		n.Client().Set(t.Context(), placementKey, list, 0)
		alone := opened(t, singleOf(n), fixed(start), nil)
		for i := range 40 {
			id := history.ID{Domain: "shop", Path: fmt.Sprint("p", i)}
			if p := id.Partition(); names[topology.Rendezvous(names, []byte(partitionKey(p)))] == n.Addr {
				apply(t, alone, p, history.Batch{Writer: "ann", Seq: uint64(i + 1), Increments: []history.Increment{{ID: id, Minute: start.Unix() / 60, Hits: 7}}})
				c.counted[id] = 7
			}
		}
	}
	s := opened(t, ringOf(nodes[:2]...), fixed(start), nil)
	c.agree(t, s)
	for i, want := range []string{list, list, ""} {
		if got := nodes[i].Client().Get(t.Context(), placementKey).Val(); got != want {
			t.Errorf("once read, node %d has the placement %q, want %q, which the version before can read", i, got, want)
		}
	}
	move(t, s, MoveConfig{To: urlOf(nodes[1:]...)})
	c.agree(t, s)
	onlyAt(t, s, nodes...)
}

// The stored table rules: silent remapping would split series in two.
func TestStoredTableOverridesTheConfiguration(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers
	a, b, c := nodes[0].Addr, nodes[1].Addr, nodes[2].Addr
	names := func(of ...string) string { slices.Sort(of); return rendezvous(of).text() }
	moved := &table{Version: 3, Nodes: []string{c}, NodeOf: make([]int, history.Partitions)}
	for _, tc := range []struct {
		promise string
		stored  map[int]string
		want    string // the error
		on      string // partition 0
		after   string // what node 1 stores
	}{
		{"as it was", map[int]string{0: names(a, b)}, "", rendezvous([]string{min(a, b), max(a, b)}).node(0), names(a, b)},
		{"a node is missing in the configuration", map[int]string{1: names(a, b, c)}, "", rendezvous([]string{a, b, c}).node(0), names(a, b, c)},
		{"one is unknown to the table", map[int]string{0: names(a)}, "", a, ""},
		{"a newer table counts, and names nodes to ask", map[int]string{0: names(a, b, c), 1: moved.text()}, "", c, moved.text()},
		{"two rings", map[int]string{0: names(a), 1: names(b)}, "has history of a ring of", "", names(b)},
		{"two rings, one of which has moved", map[int]string{0: names(a), 1: moved.text()}, "has history of a ring of", "", moved.text()},
		{"no JSON", map[int]string{1: "x"}, "the history is damaged: weir:h:placement on " + b, "", "x"},
		{"a table with a node too few", map[int]string{1: `{"version":1,"nodes":["` + a + `"],"at":[0,1]}`}, "the history is damaged", "", `{"version":1,"nodes":["` + a + `"],"at":[0,1]}`},
	} {
		for i, n := range nodes {
			n.Client().FlushAll(t.Context())
			if tc.stored[i] != "" {
				n.Client().Set(t.Context(), placementKey, tc.stored[i], 0)
			}
		}
		s := opened(t, ringOf(nodes[:2]...), fixed(start), nil)
		s.stop() // it is not to store its table on the next one's nodes
		on, err := nodeOf(t, s, 0)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || on != tc.on {
			t.Errorf("%s: partition 0 is on %q, %v, want %q and %q", tc.promise, on, err, tc.on, tc.want)
		}
		if got := nodes[1].Client().Get(t.Context(), placementKey).Val(); got != tc.after {
			t.Errorf("%s: node 1 then has the placement %.99q, want %.99q", tc.promise, got, tc.after)
		}
	}
}

// TestUnavailableNodeKeepsItsPartitions: what lies on it waits, what lies elsewhere goes on, nothing moves.
func TestUnavailableNodeKeepsItsPartitions(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 3)
	f := ringOf(nodes...)
	nodes[1].Freeze()
	fresh := opened(t, f, fixed(start), impatient)
	if _, err := nodeOf(t, fresh, 0); err == nil || !strings.Contains(err.Error(), "answers has a placement of the history, and to make one all must") {
		t.Errorf("without a placement and with a node away: %v, want an error that says that all must answer", err)
	}
	nodes[1].Thaw()
	s := opened(t, f, fixed(start), nil)
	for _, p := range new(history.Query).Partitions() {
		apply(t, s, p, history.Batch{Writer: "ann", Seq: 1})
	}
	nodes[1].Kill()
	later := opened(t, f, fixed(start), impatient)
	away := 0
	for _, p := range new(history.Query).Partitions() {
		node, _ := nodeOf(t, s, p)
		if node == nodes[1].Addr {
			if away++; away > 3 {
				continue // each takes its time
			}
		}
		r, err := later.Apply(t.Context(), p, history.Batch{Writer: "ann"})
		switch {
		case node == nodes[1].Addr && (err == nil || !strings.Contains(err.Error(), node)):
			t.Errorf("partition %d on the node that is away answers %+v, %v, want an error that names it", p, r, err)
		case node != nodes[1].Addr && (err != nil || r.Last != 1):
			t.Errorf("partition %d on a node that is there answers %+v, %v, want its position", p, r, err)
		}
	}
	nodes[1].Restart(t) // it kept nothing
	for _, p := range new(history.Query).Partitions() {
		if node, _ := nodeOf(t, s, p); node != nodes[1].Addr {
			continue
		}
		r, err := later.Apply(t.Context(), p, history.Batch{Writer: "ann", Seq: 2, After: 1})
		if err != nil || r.Status != history.Gap {
			t.Errorf("partition %d on the node that came back empty answers %+v, %v, want a gap", p, r, err)
		}
	}
	if content := nodes[1].Client().Get(t.Context(), placementKey).Val(); content == "" {
		t.Error("the node that came back empty was not given the placement again")
	}
}
