package redishistory

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/topology"
)

func TestARingIsPlacedOnceAndEvenly(t *testing.T) {
	nodes := slices.Clone(shared(t, topology.Ring).Servers)
	s := opened(t, ringOf(nodes...), fixed(start), nil)
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var first string
	for _, n := range nodes {
		content := n.Client().Get(t.Context(), placementKey).Val()
		if first == "" {
			first = content
		}
		if content == "" || content != first {
			t.Errorf("node %s has the placement %q, and the first one %q: they must be the same", n.Addr, content, first)
		}
	}
	var is placement
	if err := json.Unmarshal([]byte(first), &is); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if held := len(is.Nodes[n.Addr]); held < 55 || held > 115 {
			t.Errorf("node %s holds %d of 256 partitions, want about a third", n.Addr, held)
		}
	}
	slices.Reverse(nodes)
	other := opened(t, ringOf(nodes...), fixed(start), nil)
	for _, p := range new(history.Query).Partitions() {
		a, _ := s.node(t.Context(), p)
		b, err := other.node(t.Context(), p)
		if a != b || err != nil {
			t.Fatalf("partition %d is on %s, and with the nodes in another order on %s, %v", p, a, b, err)
		}
	}
}

// TestARingWithOtherNodesIsAnError: silent remapping would split series in two.
func TestARingWithOtherNodesIsAnError(t *testing.T) {
	nodes := shared(t, topology.Ring).Servers
	if err := opened(t, ringOf(nodes[:2]...), fixed(start), nil).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, ids := historytest.Partners(1)
	s := opened(t, ringOf(nodes...), fixed(start), nil)
	_, err := s.Apply(t.Context(), ids[0].Partition(), history.Batch{Writer: "ann"})
	if want := "node " + nodes[2].Addr + " is unknown"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want one that says %q", err, want)
	}
	if content := nodes[2].Client().Get(t.Context(), placementKey).Val(); content != "" {
		t.Errorf("a node that is no part of the ring now has the placement %q", content)
	}
	const half, rest = `{"format":"1","nodes":{"a:1":[0],"b:1":[`, `1]}}`
	var others strings.Builder
	for p := 2; p < history.Partitions; p++ {
		fmt.Fprint(&others, p, ",")
	}
	both := half + others.String() + rest
	for promise, c := range map[string]struct {
		names  []string
		stored map[string]string
		want   string
		is     error // nil for any
	}{
		"as it was":           {[]string{"a:1", "b:1"}, map[string]string{"a:1": both, "b:1": both}, "", nil},
		"a node is missing":   {[]string{"a:1"}, map[string]string{"a:1": both}, "node b:1 is missing", nil},
		"a node is unknown":   {[]string{"a:1", "b:1", "c:1"}, map[string]string{"a:1": both, "b:1": both}, "node c:1 is unknown", nil},
		"one was replaced":    {[]string{"a:1", "c:1"}, map[string]string{"a:1": both}, "node c:1 is unknown", nil},
		"two rings":           {[]string{"a:1", "b:1"}, map[string]string{"a:1": both, "b:1": "{}"}, "they are of two rings", nil},
		"no JSON":             {[]string{"a:1"}, map[string]string{"a:1": "x"}, "a:1", ErrDamaged},
		"another format":      {[]string{"a:1"}, map[string]string{"a:1": `{"format":"2","nodes":{"a:1":[0]}}`}, "a:1", ErrFormat},
		"a partition twice":   {[]string{"a:1"}, map[string]string{"a:1": `{"format":"1","nodes":{"a:1":[0,0]}}`}, "a:1", ErrDamaged},
		"a partition nowhere": {[]string{"a:1"}, map[string]string{"a:1": `{"format":"1","nodes":{"a:1":[0]}}`}, "a:1", ErrDamaged},
		"no such partition":   {[]string{"a:1"}, map[string]string{"a:1": `{"format":"1","nodes":{"a:1":[256]}}`}, "a:1", ErrDamaged},
	} {
		err := (&ring{names: c.names}).adopt(c.stored)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %q, and that it is %v", promise, err, c.want, c.is)
		}
	}
}

// TestANodeThatIsAwayKeepsItsPartitions: what lies on it waits, what lies elsewhere goes on, nothing moves.
func TestANodeThatIsAwayKeepsItsPartitions(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 3)
	f := ringOf(nodes...)
	nodes[1].Stop()
	fresh := opened(t, f, fixed(start), impatient)
	if _, err := fresh.node(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "to make one all must answer") {
		t.Errorf("without a placement and with a node away: %v, want an error that says that all must answer", err)
	}
	nodes[1].Cont()
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
