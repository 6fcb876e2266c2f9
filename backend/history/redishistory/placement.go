package redishistory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// placementKey is on every node of a ring, and holds its table: see FORMAT.md.
const placementKey = prefix + ":placement"

// table says which node of a ring holds which partition.
type table struct {
	Version int      `json:"version"` // 0 as the ring was made: by rendezvous hashing
	Nodes   []string `json:"nodes"`
	At      []int    `json:"at"`              // by partition, the index of its node
	Left    int      `json:"left,omitempty"`  // partitions that the move under way has yet to bring to their nodes
	Bytes   uint64   `json:"bytes,omitempty"` // that all moves have copied
}

func (t *table) clone() *table {
	c := *t
	c.Nodes, c.At = slices.Clone(t.Nodes), slices.Clone(t.At)
	return &c
}

// rendezvous is the table of a ring as it is made of nodes, and what a move brings it to.
func rendezvous(nodes []string) *table {
	t := &table{Nodes: nodes, At: make([]int, history.Partitions)}
	for p := range t.At {
		t.At[p] = topology.Rendezvous(nodes, []byte(partitionKey(history.Partition(p))))
	}
	return t
}

func (t *table) node(p history.Partition) string { return t.Nodes[t.At[p]] }

// text is the table as nodes store it: for version 0 only the names, as older weirs do.
func (t *table) text() string {
	if t.Version == 0 {
		return string(asJSON(t.Nodes))
	}
	return string(asJSON(t))
}

// parseTable reads what a node stores.
func parseTable(node, text string) (*table, error) {
	var t table
	var names []string
	err := json.Unmarshal([]byte(text), &names)
	if err == nil && len(names) > 0 {
		return rendezvous(names), nil
	}
	if err != nil && json.Unmarshal([]byte(text), &t) == nil && t.Version > 0 && len(t.At) == history.Partitions &&
		!slices.ContainsFunc(t.At, func(i int) bool { return i < 0 || i >= len(t.Nodes) }) {
		return &t, nil
	}
	return nil, fmt.Errorf("%w: %s on %s is no table of a ring's partitions: %.100q", ErrDamaged, placementKey, node, text)
}

// foreign reports whether two tables are of different rings.
func (t *table) foreign(other *table) bool {
	return t.Version == 0 && other.Version == 0 && !slices.Equal(t.Nodes, other.Nodes) ||
		!slices.ContainsFunc(t.Nodes, func(n string) bool { return slices.Contains(other.Nodes, n) })
}

// newer compares tables. Two movers may write the same version; which one counts is then of no matter, as tombstones
// mend either.
func (t *table) newer(than *table) bool {
	return than == nil || cmp.Or(cmp.Compare(t.Version, than.Version), cmp.Compare(t.text(), than.text())) > 0
}

// ring is where the partitions are, as far as this process knows. Hits that lie on a node that is away wait for it.
type ring struct {
	names     []string   // of the configuration, in order; nil if there is no ring
	mu        sync.Mutex // locked while nodes are asked, which may take long
	loaded    time.Time  // when they were
	table     atomic.Pointer[table]
	routes    [history.Partitions]atomic.Pointer[route]
	confirmed sync.Map      // the nodes that are known to store a table
	followed  atomic.Uint64 // see Placement
}

// Placement is where the partitions of a history are, as its store last knew.
type Placement struct {
	Nodes      map[string]int // how many each node has; all have none, "", where there is no ring
	Left       int            // how many the move under way has yet to bring to their nodes
	MovedBytes uint64         // that all moves of this history have copied
	Followed   uint64         // how often this store came to a node that a partition had left, and went on to the next
}

// Placement returns where the partitions are. It asks no server.
func (s *Store) Placement() Placement {
	all := Placement{Nodes: make(map[string]int), Followed: s.ring.followed.Load()}
	if t := s.ring.table.Load(); t != nil {
		all.Left, all.MovedBytes = t.Left, t.Bytes
		for _, n := range t.Nodes {
			all.Nodes[n] = 0
		}
	}
	for p := range s.ring.routes {
		if r := s.ring.routes[p].Load(); r != nil {
			all.Nodes[r.node]++
		} else if s.ring.names == nil {
			all.Nodes[""]++
		}
	}
	return all
}

// route is a node, and the token of the move whose tombstone led there, if one did.
type route struct{ node, token string }

var noRing = &route{}

// format is what scripts expect at the node.
func (r *route) format() string {
	if r.token == "" {
		return format
	}
	return format + " " + r.token
}

// route returns where a partition is.
func (s *Store) route(ctx context.Context, p history.Partition) (*route, error) {
	if s.pinned != nil {
		return s.pinned, s.renew(ctx)
	} else if s.ring.names == nil {
		return noRing, nil
	}
	known := func() (r *route, ok bool) {
		if r = s.ring.routes[p].Load(); r != nil {
			_, ok = s.ring.confirmed.Load(r.node)
		}
		return r, ok
	}
	if r, ok := known(); ok {
		return r, nil
	}
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	if r, ok := known(); ok {
		return r, nil
	}
	failed, err := s.loadTables(ctx)
	r := s.ring.routes[p].Load()
	if err != nil || r == nil {
		return nil, err
	}
	return r, failed[r.node]
}

// loadTables reads the tables of all nodes, takes the newest, and stores it where there is none. It asks all before it stores
// anything, so that no node of another ring is made one of this. Failed are the nodes that cannot be used, and why.
func (s *Store) loadTables(ctx context.Context) (failed map[string]error, err error) {
	defer func() { s.ring.loaded = time.Now() }()
	failed = make(map[string]error)
	held := make(map[string]*table)
	var best *table
	names := slices.Clone(s.ring.names)
	for i := 0; i < len(names); i++ { // which grows
		text, err := s.placement(ctx, names[i])
		if failed[names[i]] = err; err != nil || text == "" {
			continue
		}
		t, err := parseTable(names[i], text)
		if err != nil {
			return nil, err
		}
		if held[names[i]] = t; t.newer(best) {
			best = t
		}
		for _, n := range t.Nodes {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for name, t := range held {
		if t.foreign(best) {
			return nil, fmt.Errorf("node %s holds history of a ring of %q, and another node of one of %q: name one ring's nodes, "+
				"or a ring of its own for the history", name, t.Nodes, best.Nodes)
		}
	}
	if best == nil {
		if err := errors.Join(slices.Collect(maps.Values(failed))...); err != nil {
			return nil, fmt.Errorf("%w: no node of the ring that answers has a placement of the history, and to make one all must", err)
		}
		if s.c.ReadOnly {
			return nil, fmt.Errorf("no weir has kept any history on the ring's nodes %q yet", s.ring.names)
		}
		best = rendezvous(s.ring.names)
	}
	for _, name := range best.Nodes {
		if failed[name] == nil && held[name] == nil {
			failed[name] = s.begin(ctx, name, best, len(held) > 0)
		}
		if failed[name] == nil {
			s.ring.confirmed.Store(name, true)
		}
	}
	s.adopt(best)
	return failed, nil
}

// begin stores a table on a node that has none.
func (s *Store) begin(ctx context.Context, name string, t *table, others bool) error {
	if s.c.ReadOnly && !s.c.Moves {
		return fmt.Errorf("node %s has no placement of the history: it has lost what it held; a weir that counts goes on there, "+
			"or else weir history move --to with all nodes of the ring begins it anew", name)
	}
	if others {
		s.log.Warn("a node of the ring has no placement of the history: it has lost what it held", "node", name)
	}
	if s.c.ReadOnly { // a dry run finds what a move does
		return nil
	}
	text, err := s.placement(ctx, name, t.text(), t.Version)
	if err == nil && text != t.text() { // another process was quicker
		err = fmt.Errorf("node %s has been given the placement %.200s meanwhile: try again, or name the same nodes everywhere", name, text)
	}
	return err
}

// adopt goes by a table, if it is newer than the one before.
func (s *Store) adopt(t *table) {
	before := s.ring.table.Load()
	if !t.newer(before) {
		return
	}
	s.ring.table.Store(t)
	for p := range s.ring.routes {
		s.ring.routes[p].Store(&route{node: t.node(history.Partition(p))})
	}
	sorted := slices.Sorted(slices.Values(t.Nodes))
	if before == nil && !slices.Equal(sorted, s.ring.names) && !s.c.Moves {
		s.log.Warn("the configuration names other nodes than those that the history is on: name these, or move it: "+
			"weir history move --to", "configured", s.ring.names, "nodes", sorted)
	}
}

// placement returns what a node has stored, "" for nothing. It first stores text, if there is any, and the node has none
// or an older version.
func (s *Store) placement(ctx context.Context, name string, textAndVersion ...any) (string, error) {
	url := name
	if !strings.HasPrefix(name, "/") { // which is a socket
		url = "redis://" + name // as it may end with the number of a database
	}
	if _, err := s.servers.Join(url); err != nil {
		return "", err
	}
	reply, err := pipeline.Run(ctx, s.servers, topology.Destination{Node: name}, s.scripts.placement, []string{placementKey}, textAndVersion...)
	if err != nil {
		return "", fmt.Errorf("node of the history's ring: %w", err)
	}
	return item[string](reply, 0), nil
}

const (
	// reloadInterval is the shortest time between two looks at the tables because a node did not answer.
	reloadInterval = time.Second
	// maxMoveWait is how long a script waits for a partition that is being moved, and movePause how often it looks.
	maxMoveWait, movePause = 5 * time.Second, 20 * time.Millisecond
)

// follow reports whether to run a script again: the partition has moved to another node, or is being moved.
func (s *Store) follow(ctx context.Context, p history.Partition, at *route, reply pipeline.Reply, failed error, begin time.Time) bool {
	if s.pinned != nil || s.ring.names == nil || ctx.Err() != nil {
		return false
	}
	switch state := item[string](reply, 0); {
	case failed != nil:
		return !topology.IsReply(failed) && s.reload(ctx, p, at)
	case time.Since(begin) > maxMoveWait:
		return false
	case state == "moved":
		s.ring.followed.Add(1)
		s.ring.routes[p].CompareAndSwap(at, &route{node: item[string](reply, 2), token: item[string](reply, 1)})
		s.probed[p].Store(false)
		return true
	case state == "copying" && s.reload(ctx, p, at):
		return true
	case state == "moving" || state == "copying":
		select {
		case <-time.After(movePause):
		case <-ctx.Done():
		}
		return true
	}
	return false
}

// reload reads the tables again, if that was not done lately, and reports whether a partition is elsewhere now.
func (s *Store) reload(ctx context.Context, p history.Partition, at *route) bool {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	if s.ring.routes[p].Load() == at && time.Since(s.ring.loaded) > reloadInterval {
		s.loadAgain(ctx)
	}
	return s.ring.routes[p].Load() != at
}

// refreshTable reads the tables again, if this store goes by any: what it tells of a move is then never old, also where it
// neither writes nor reads.
func (s *Store) refreshTable(ctx context.Context) {
	if s.ring.table.Load() == nil || !s.ring.mu.TryLock() {
		return
	}
	defer s.ring.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	s.loadAgain(ctx)
}

func (s *Store) loadAgain(ctx context.Context) {
	if _, err := s.loadTables(ctx); err != nil {
		s.log.Debug("the placement of the history was not read again", "error", err)
	}
}
