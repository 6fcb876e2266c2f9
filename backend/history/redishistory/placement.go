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

// placementKey is a key on every node of a ring, which holds the ring's table; see FORMAT.md.
const placementKey = prefix + ":placement"

// table says which node of a ring has which partition.
type table struct {
	Version int      `json:"version"` // 0 for a new ring, with rendezvous hashing
	Nodes   []string `json:"nodes"`
	NodeOf  []int    `json:"at"`              // by partition, the index of its node
	Left    int      `json:"left,omitempty"`  // number of partitions that the present move has not moved yet
	Bytes   uint64   `json:"bytes,omitempty"` // number of bytes that all moves have copied
}

func (t *table) clone() *table {
	c := *t
	c.Nodes, c.NodeOf = slices.Clone(t.Nodes), slices.Clone(t.NodeOf)
	return &c
}

// rendezvous returns the table of a new ring of nodes, which is also the goal of a move to these nodes.
func rendezvous(nodes []string) *table {
	t := &table{Nodes: nodes, NodeOf: make([]int, history.Partitions)}
	for p := range t.NodeOf {
		t.NodeOf[p] = topology.Rendezvous(nodes, []byte(partitionKey(history.Partition(p))))
	}
	return t
}

func (t *table) node(p history.Partition) string { return t.Nodes[t.NodeOf[p]] }

// text returns the table as nodes store it. Of version 0 they store only the names, as older versions of weir do.
func (t *table) text() string {
	if t.Version == 0 {
		return string(asJSON(t.Nodes))
	}
	return string(asJSON(t))
}

// parseTable parses the table that a node stores.
func parseTable(node, text string) (*table, error) {
	var t table
	var names []string
	err := json.Unmarshal([]byte(text), &names)
	if err == nil && len(names) > 0 {
		return rendezvous(names), nil
	}
	if err != nil && json.Unmarshal([]byte(text), &t) == nil && t.Version > 0 && len(t.NodeOf) == history.Partitions &&
		!slices.ContainsFunc(t.NodeOf, func(i int) bool { return i < 0 || i >= len(t.Nodes) }) {
		return &t, nil
	}
	return nil, fmt.Errorf("%w: %s on %s is no table of a ring's partitions: %.100q", ErrDamaged, placementKey, node, text)
}

// isForeign reports whether two tables are of different rings.
func (t *table) isForeign(other *table) bool {
	return t.Version == 0 && other.Version == 0 && !slices.Equal(t.Nodes, other.Nodes) ||
		!slices.ContainsFunc(t.Nodes, func(n string) bool { return slices.Contains(other.Nodes, n) })
}

// isNewer reports whether a table replaces another one, which may be nil. Two movers may write the same version; it
// does not matter which one wins, as tombstones correct either.
func (t *table) isNewer(than *table) bool {
	return than == nil || cmp.Or(cmp.Compare(t.Version, than.Version), cmp.Compare(t.text(), than.text())) > 0
}

// ring has the nodes of the partitions, as this process last read them.
type ring struct {
	names     []string   // sorted names in the configuration; nil if there is no ring
	mu        sync.Mutex // held while tables are read, which may take long
	loaded    time.Time  // when the tables were last read
	table     atomic.Pointer[table]
	routes    [history.Partitions]atomic.Pointer[route]
	confirmed sync.Map      // the names of the nodes that store a table
	followed  atomic.Uint64 // Placement.Followed
}

// Placement has the nodes of a history's partitions, as its store last read them.
type Placement struct {
	Nodes      map[string]int // by node, its number of partitions; the node is "" if there is no ring
	Left       int            // number of partitions that the present move has not moved yet
	MovedBytes uint64         // number of bytes that all moves of this history have copied
	Followed   uint64         // how often a node redirected this store, as a partition had moved
}

// Placement returns the last known nodes of the partitions. It sends no command.
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

// route is a node and, if a tombstone led to it, the token of the move.
type route struct{ node, token string }

var noRing = &route{}

// format returns the format that scripts expect at the node.
func (r *route) format() string {
	if r.token == "" {
		return format
	}
	return format + " " + r.token
}

// route returns the route to a partition.
func (s *Store) route(ctx context.Context, p history.Partition) (*route, error) {
	if s.pinned != nil {
		return s.pinned, s.renew(ctx)
	} else if s.ring.names == nil {
		return noRing, nil
	}
	confirmed := func() (r *route, ok bool) {
		if r = s.ring.routes[p].Load(); r != nil {
			_, ok = s.ring.confirmed.Load(r.node)
		}
		return r, ok
	}
	if r, ok := confirmed(); ok {
		return r, nil
	}
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	if r, ok := confirmed(); ok {
		return r, nil
	}
	failed, err := s.loadTables(ctx)
	r := s.ring.routes[p].Load()
	if err != nil || r == nil {
		return nil, err
	}
	return r, failed[r.node]
}

// loadTables reads the tables of all nodes, uses the newest one, and stores it on nodes without a table. It reads all
// tables before it stores any, so that no node of another ring joins this one. failed has the errors of the nodes that
// cannot be used.
func (s *Store) loadTables(ctx context.Context) (failed map[string]error, err error) {
	defer func() { s.ring.loaded = time.Now() }()
	failed = make(map[string]error)
	tables := make(map[string]*table)
	var best *table
	names := slices.Clone(s.ring.names)
	for i := 0; i < len(names); i++ { // names grows
		text, err := s.placement(ctx, names[i])
		if failed[names[i]] = err; err != nil || text == "" {
			continue
		}
		t, err := parseTable(names[i], text)
		if err != nil {
			return nil, err
		}
		if tables[names[i]] = t; t.isNewer(best) {
			best = t
		}
		for _, n := range t.Nodes {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for name, t := range tables {
		if t.isForeign(best) {
			return nil, fmt.Errorf("node %s has history of a ring of %q, and another node of one of %q: name one ring's nodes, "+
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
		if failed[name] == nil && tables[name] == nil {
			failed[name] = s.initNode(ctx, name, best, len(tables) > 0)
		}
		if failed[name] == nil {
			s.ring.confirmed.Store(name, true)
		}
	}
	s.useTable(best)
	return failed, nil
}

// initNode stores a table on a node that has none. others means that other nodes of the ring have a table.
func (s *Store) initNode(ctx context.Context, name string, t *table, others bool) error {
	if s.c.ReadOnly && !s.c.Moves {
		return fmt.Errorf("node %s has no placement of the history: it has lost what it held; a weir that counts goes on there, "+
			"or else weir history move --to with all nodes of the ring begins it anew", name)
	}
	if others {
		s.log.Warn("a node of the ring has no placement of the history", "node", name, "reason", "it has lost its data")
	}
	if s.c.ReadOnly { // a dry run of a move
		return nil
	}
	text, err := s.placement(ctx, name, t.text(), t.Version)
	if err == nil && text != t.text() { // another process was faster
		err = fmt.Errorf("node %s has been given the placement %.200s meanwhile: try again, or name the same nodes everywhere", name, text)
	}
	return err
}

// useTable uses a table from now on, if it is newer than the last one.
func (s *Store) useTable(t *table) {
	before := s.ring.table.Load()
	if !t.isNewer(before) {
		return
	}
	s.ring.table.Store(t)
	for p := range s.ring.routes {
		s.ring.routes[p].Store(&route{node: t.node(history.Partition(p))})
	}
	sorted := slices.Sorted(slices.Values(t.Nodes))
	if before == nil && !slices.Equal(sorted, s.ring.names) && !s.c.Moves {
		s.log.Warn("the configuration names other nodes than those that the history is on", "configured", s.ring.names, "nodes", sorted,
			"remedy", "name these, or move the history: weir history move --to")
	}
}

// placement returns the table that a node stores, "" for none. If there are textAndVersion, it first stores the text on
// a node that has no table or an older version.
func (s *Store) placement(ctx context.Context, name string, textAndVersion ...any) (string, error) {
	url := name
	if !strings.HasPrefix(name, "/") { // not a socket
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
	// reloadInterval is the least time between reads of the tables because a node did not answer.
	reloadInterval = time.Second
	// maxMoveWait is how long run waits for a partition that is being moved, movePause the time between tries.
	maxMoveWait, movePause = 5 * time.Second, 20 * time.Millisecond
)

// shouldRetry reports whether to run a script again, because the partition has moved to another node or is being moved.
func (s *Store) shouldRetry(ctx context.Context, p history.Partition, at *route, reply pipeline.Reply, failed error, begin time.Time) bool {
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

// reload reads the tables again, unless they were read within reloadInterval, and reports whether a partition has
// another route now.
func (s *Store) reload(ctx context.Context, p history.Partition, at *route) bool {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	if s.ring.routes[p].Load() == at && time.Since(s.ring.loaded) > reloadInterval {
		s.loadAgain(ctx)
	}
	return s.ring.routes[p].Load() != at
}

// refreshTable reads the tables again, if this store uses any, so that Placement is up to date even if the store
// neither reads nor writes.
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
