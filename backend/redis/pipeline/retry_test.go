package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

var answer = NewScript("return {KEYS[1], ARGV[1]}")

// TestServersReachTheOwnerOfAKey runs a script, which no server knows at first, on each topology.
func TestServersReachTheOwnerOfAKey(t *testing.T) {
	t.Parallel()
	for kind, servers := range map[topology.Type]int{
		topology.Single: 1, topology.Sentinel: 1, topology.Cluster: 3, topology.Ring: 3,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			url := redistest.Start(t, string(kind)).URL
			s := connected(t, topology.Config{Type: kind, URL: url, Timeout: 5 * time.Second, Fixed: true})
			nodes := s.Nodes()
			if (len(nodes) > 0) != (kind == topology.Ring) {
				t.Errorf("the nodes are %v: only a ring has names for them", nodes)
			}
			for i, key := range []string{"weir:{a}", "weir:{b}", "weir:{c}", "weir:{d}"} {
				at := topology.Destination{Key: []byte(key)}
				if kind == topology.Ring {
					at.Node = nodes[i%len(nodes)]
				}
				reply, err := Run(t.Context(), s, at, answer, []string{key}, "x")
				if err != nil || len(reply) != 2 || reply[0] != key || reply[1] != "x" {
					t.Errorf("a script for %s answers %v, %v", key, reply, err)
				}
				if _, err := Do(t.Context(), s, at, "set", key, i); err != nil {
					t.Error(err)
				}
				if none, err := Do(t.Context(), s, at, "get", key+"none"); none != nil || err != nil {
					t.Errorf("a key that is not there is %v, %v, want nil and no error", none, err)
				}
			}
			asked := 0
			err := s.Each(t.Context(), func(_ string, do func(...any) (any, error)) error {
				asked++
				_, err := do("ping")
				return err
			})
			if asked != servers || err != nil {
				t.Errorf("%d servers were asked, %v, want %d", asked, err, servers)
			}
		})
	}
}

// TestServersNeverRemapARing: what is kept must be looked for where it is, or not at all.
func TestServersNeverRemapARing(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 2)
	s := connected(t, topology.Config{Type: topology.Ring, URL: nodes[0].Addr + "," + nodes[1].Addr, Timeout: 200 * time.Millisecond, Fixed: true})
	if _, err := Do(t.Context(), s, topology.Destination{Key: []byte("a"), Node: "elsewhere:1"}, "ping"); err == nil ||
		!strings.Contains(err.Error(), `no node "elsewhere:1"`) {
		t.Errorf("a node that is not in the ring: %v, want an error that names it", err)
	}
	nodes[0].Kill()
	_, err := Do(t.Context(), s, topology.Destination{Key: []byte("a"), Node: nodes[0].Addr}, "set", "a", "1")
	if err == nil || !strings.Contains(err.Error(), nodes[0].Addr) {
		t.Errorf("a node that is away: %v, want an error that names it", err)
	}
	if n := nodes[1].Client().Exists(t.Context(), "a").Val(); n != 0 {
		t.Error("what was for a node that is away went to another one")
	}
}
