package redishistory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// placementKey is on every node of a ring, and holds the names of all, as a list in JSON.
const placementKey = prefix + ":placement"

// ring is the nodes of a ring. Their names alone say which of them holds which partition, so they are decided once and
// stored on every node: hits that lie on a node that is away wait for it, and a node that is missing in the configuration,
// or is one more, is an error.
type ring struct {
	names     []string   // in order; nil if there is no ring
	mu        sync.Mutex // locked while nodes are asked, which may take long
	confirmed sync.Map   // the nodes that are known to store these names
}

// node returns the node that holds a partition, "" where there is no ring.
func (s *Store) node(ctx context.Context, p history.Partition) (string, error) {
	if s.ring.names == nil {
		return "", nil
	}
	node := s.servers.NodeOf([]byte(partitionKey(p)))
	if _, known := s.ring.confirmed.Load(node); known {
		return node, nil
	}
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	if _, known := s.ring.confirmed.Load(node); known {
		return node, nil
	}
	return node, s.confirm(ctx, node)
}

// confirm finds out whether the nodes store the names of this ring, and has those store them that have none. It asks all
// before it stores anything, so that no node of another ring is made one of this. What it finds out of the others holds
// even if its error says that the node does not answer.
func (s *Store) confirm(ctx context.Context, node string) error {
	var stored, empty []string
	failed := make(map[string]error)
	for _, name := range s.ring.names {
		text, err := s.placement(ctx, name)
		if err == nil && text != "" {
			err = s.ring.checkNames(name, text)
			if err != nil {
				return err
			}
			stored = append(stored, name)
		} else if failed[name] = err; err == nil {
			empty = append(empty, name)
		}
	}
	switch {
	case stored == nil && len(empty) < len(s.ring.names):
		return fmt.Errorf("the ring's nodes have no placement of the history yet, and to make one all must answer: %w",
			errors.Join(slices.Collect(maps.Values(failed))...))
	case s.c.ReadOnly && slices.Contains(empty, node):
		return fmt.Errorf("node %s has no placement of the history: it has lost what it held, or no weir has kept any there yet", node)
	case s.c.ReadOnly:
		empty = nil
	}
	content, _ := json.Marshal(s.ring.names) // of texts, it cannot fail
	for _, name := range empty {
		if stored != nil {
			s.log.Warn("a node of the ring has no placement of the history: it has lost what it held", "node", name)
		}
		var text string
		if text, failed[name] = s.placement(ctx, name, content); failed[name] != nil {
			continue
		}
		if err := s.ring.checkNames(name, text); err != nil { // another process was quicker
			return err
		}
		s.ring.confirmed.Store(name, true)
	}
	for _, name := range stored {
		s.ring.confirmed.Store(name, true)
	}
	return failed[node]
}

// placement returns what a node has stored, "" for nothing. Where it has nothing it first stores content, if there is any.
func (s *Store) placement(ctx context.Context, name string, content ...any) (string, error) {
	reply, err := pipeline.Run(ctx, s.servers, topology.At{Node: name}, s.scripts.placement, []string{placementKey}, content...)
	return item[string](reply, 0), err
}

// checkNames returns an error if what a node has stored is not the names of this ring.
func (r *ring) checkNames(node, text string) error {
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return fmt.Errorf("%w: %s on %s: %w", ErrDamaged, placementKey, node, err)
	}
	if !slices.Equal(names, r.names) {
		return fmt.Errorf("node %s holds history of a ring of %q, and the configuration names %q: name them again as they were "+
			"written, or a ring of its own for the history", node, names, r.names)
	}
	return nil
}
