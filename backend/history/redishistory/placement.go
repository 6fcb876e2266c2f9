package redishistory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// placementKey is on every node of a ring.
const placementKey = Prefix + ":placement"

// ring is which node of a ring holds which partition. It was decided once and is stored on every node: hits that lie on
// a node that is away wait for it, and a node that is missing in the configuration is an error.
type ring struct {
	names []string                           // as configured; nil if there is no ring
	mu    sync.Mutex                         // locked while nodes are asked, which may take long
	known atomic.Pointer[confirmedPlacement] // nil before any node has answered
}

// confirmedPlacement is a placement, and the nodes that are known to store it. It is replaced, and never changed.
type confirmedPlacement struct {
	stored    string // as on the nodes
	node      [history.Partitions]string
	confirmed map[string]bool
}

// placement is what is stored.
type placement struct {
	Format string           `json:"format"`
	Nodes  map[string][]int `json:"nodes"` // the partitions of each
}

// node returns the node that holds a partition, "" where there is no ring.
func (s *Store) node(ctx context.Context, p history.Partition) (string, error) {
	r := &s.ring
	if r.names == nil {
		return "", nil
	}
	if known := r.known.Load(); known != nil && known.confirmed[known.node[p]] {
		return known.node[p], nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known.Load() == nil {
		if err := s.findPlacement(ctx); err != nil {
			return "", err
		}
	}
	known := r.known.Load()
	if node := known.node[p]; !known.confirmed[node] {
		return node, s.confirm(ctx, known, node)
	}
	return known.node[p], nil
}

// findPlacement finds the placement, or makes it where none is: where another process was quicker on some nodes, what
// it stored is found to be the same, or reported.
func (s *Store) findPlacement(ctx context.Context) error {
	stored, failed := s.placements(ctx)
	if len(stored) == 0 && failed == nil {
		if s.c.ReadOnly {
			return errors.New("the ring's nodes have no placement of the history: no weir has kept one there yet")
		}
		if stored, failed = s.placements(ctx, s.newPlacement()); failed != nil {
			return failed
		}
	}
	if len(stored) == 0 {
		return fmt.Errorf("the ring's nodes have no placement of the history yet, and to make one all must answer: %w",
			failed)
	}
	return s.ring.adopt(stored)
}

// placements returns what the nodes that answer have stored, by name, and why others do not answer. Where a node has
// nothing it first stores content, if there is any.
func (s *Store) placements(ctx context.Context, content ...any) (stored map[string]string, failed error) {
	stored = make(map[string]string)
	for _, name := range s.ring.names {
		text, err := s.placed(ctx, name, content...)
		if failed = errors.Join(failed, err); text != "" {
			stored[name] = text
		}
	}
	return stored, failed
}

// placed returns what a node has stored, "" for nothing. Where it has nothing it first stores content, if there is any.
func (s *Store) placed(ctx context.Context, name string, content ...any) (string, error) {
	reply, err := pipeline.Run(ctx, s.servers, topology.At{Node: name}, s.scripts.placed, []string{placementKey}, content...)
	return item[string](reply, 0), err
}

// newPlacement places all partitions as keys are placed on a ring.
func (s *Store) newPlacement() string {
	made := placement{Format: Format, Nodes: make(map[string][]int)}
	for _, name := range s.ring.names {
		made.Nodes[name] = []int{} // one without any partition is a node too
	}
	for p := range history.Partitions {
		node := s.servers.NodeOf([]byte(partitionKey(history.Partition(p))))
		made.Nodes[node] = append(made.Nodes[node], p)
	}
	content, _ := json.Marshal(made) // of texts and numbers, it cannot fail
	return string(content)
}

// adopt makes what the nodes have stored the placement, if they agree with each other and with the configuration.
func (r *ring) adopt(stored map[string]string) error {
	first := ""
	for _, name := range r.names {
		content, has := stored[name]
		switch {
		case !has:
		case first == "":
			first = name
		case content != stored[first]:
			return fmt.Errorf("the ring's nodes %s and %s have different placements of the history: they are of two rings",
				first, name)
		}
	}
	known := confirmedPlacement{stored: stored[first], confirmed: make(map[string]bool)}
	for name := range stored {
		known.confirmed[name] = true
	}
	var parsed placement
	if err := json.Unmarshal([]byte(stored[first]), &parsed); err != nil {
		return fmt.Errorf("%w: %s on %s: %w", ErrDamaged, placementKey, first, err)
	}
	if parsed.Format != Format {
		return fmt.Errorf("%w: %s on %s, and this weir knows %s", ErrFormat, parsed.Format, first, Format)
	}
	for _, name := range r.names {
		if _, placed := parsed.Nodes[name]; !placed {
			return fmt.Errorf("node %s is unknown to the placement of the history on %s: leave it out, "+
				"or name a ring of its own for the history", name, first)
		}
	}
	if err := known.place(parsed, r.names, first); err != nil {
		return err
	}
	r.known.Store(&known)
	return nil
}

// place notes the node of each partition by a placement, that on the first node. Each must be on one configured node.
func (k *confirmedPlacement) place(parsed placement, names []string, first string) error {
	for name, partitions := range parsed.Nodes {
		if !slices.Contains(names, name) {
			return fmt.Errorf("node %s is missing: by the placement on %s it holds %d partitions of the history: "+
				"name it again as it was written", name, first, len(partitions))
		}
		for _, p := range partitions {
			if p < 0 || p >= history.Partitions || k.node[p] != "" {
				return fmt.Errorf("%w: %s on %s: partition %d", ErrDamaged, placementKey, first, p)
			}
			k.node[p] = name
		}
	}
	if at := slices.Index(k.node[:], ""); at >= 0 {
		return fmt.Errorf("%w: %s on %s: partition %d is nowhere", ErrDamaged, placementKey, first, at)
	}
	return nil
}

// confirm checks that a node that was away before has the same placement. One that has none has lost what it held.
func (s *Store) confirm(ctx context.Context, known *confirmedPlacement, name string) error {
	content, err := s.placed(ctx, name)
	if err == nil && content == "" {
		if s.c.ReadOnly {
			return fmt.Errorf("node %s has no placement of the history: it has lost what it held", name)
		}
		s.log.Warn("a node of the ring has no placement of the history: it has lost what it held", "node", name)
		content, err = s.placed(ctx, name, known.stored)
	}
	switch {
	case err != nil:
		return err
	case content != known.stored:
		return fmt.Errorf("node %s has another placement of the history than the other nodes: it is of another ring", name)
	}
	updated := confirmedPlacement{known.stored, known.node, maps.Clone(known.confirmed)}
	updated.confirmed[name] = true
	s.ring.known.Store(&updated)
	return nil
}
