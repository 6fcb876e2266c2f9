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

func TestRingPartitionsArePlacedOnceAndEvenly(t *testing.T) {
	nodes := slices.Clone(shared(t, topology.Ring).Servers)
	s := opened(t, ringOf(nodes...), fixed(start), nil)
	slices.Reverse(nodes)
	other := opened(t, ringOf(nodes...), fixed(start), nil)
	held := make(map[string]int)
	for _, p := range new(history.Query).Partitions() {
		a, failed := s.node(t.Context(), p)
		b, err := other.node(t.Context(), p)
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

// TestRingWithOtherNodesIsAnError: silent remapping would split series in two.
func TestRingWithOtherNodesIsAnError(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers
	a, b, c := nodes[0].Addr, nodes[1].Addr, nodes[2].Addr
	for promise, tc := range map[string]struct {
		stored map[int]string
		want   string
	}{
		"as it was":         {map[int]string{0: fmt.Sprintf("[%q,%q]", min(a, b), max(a, b))}, ""},
		"a node is missing": {map[int]string{1: fmt.Sprintf("[%q,%q,%q]", a, b, c)}, "node " + b + " holds history of a ring of"},
		"a node is unknown": {map[int]string{0: fmt.Sprintf("[%q]", a)}, "node " + a + " holds history of a ring of"},
		"no JSON":           {map[int]string{1: "x"}, "the history is damaged: weir:h:placement on " + b},
	} {
		for i, n := range nodes {
			n.Client().FlushAll(t.Context())
			if tc.stored[i] != "" {
				n.Client().Set(t.Context(), placementKey, tc.stored[i], 0)
			}
		}
		s := opened(t, ringOf(nodes[:2]...), fixed(start), nil)
		_, err := s.node(t.Context(), 0)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", promise, err, tc.want)
		}
		for i, n := range nodes {
			content := n.Client().Get(t.Context(), placementKey).Val()
			if tc.stored[i] != "" && content != tc.stored[i] || i == 2 && content != "" || tc.want != "" && content != tc.stored[i] {
				t.Errorf("%s: node %d has the placement %q, and had %q", promise, i, content, tc.stored[i])
			}
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
	if _, err := fresh.node(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "to make one all must answer") {
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
		node, _ := s.node(t.Context(), p)
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
		if node, _ := s.node(t.Context(), p); node != nodes[1].Addr {
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
