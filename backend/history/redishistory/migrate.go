package redishistory

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
)

const (
	// moverKey is the lock of a mover, on every node of a ring. It holds the mover's token and host.
	moverKey = prefix + ":mover"
	// lockTime is the TTL of a mover's locks, and thus of its fence. The mover renews the locks after a third of it.
	lockTime = 30 * time.Second
	// dumpSize is the number of keys that one script copies, and sampled the number of series that a plan measures in each
	// partition.
	dumpSize, sampled = 50, 10
)

// MoveConfig configures a move.
type MoveConfig struct {
	To      string   // the URL of the ring after the move
	Lost    []string // names of nodes that are lost for good; their partitions begin empty
	Machine string   // this host, for the error of another mover
	DryRun  bool     // only plan the move
}

// MovedPartition is a partition that moves. In a dry run Series and Bytes are estimates from a sample.
type MovedPartition struct {
	Partition history.Partition `json:"partition"`
	From      string            `json:"from"`
	To        string            `json:"to"`
	Lost      bool              `json:"lost,omitempty"` // its node is lost for good, with its hits
	Moved     bool              `json:"moved"`
	Series    uint64            `json:"series"`
	Bytes     uint64            `json:"bytes"`
}

// MoveResult is the result of a move, or of its dry run.
type MoveResult struct {
	Version    int              `json:"version"` // version of the table
	Nodes      []string         `json:"nodes"`
	Partitions []MovedPartition `json:"partitions"`
	// Expected is the estimated duration, in a dry run.
	Expected time.Duration `json:"expected_ns,omitempty"`
}

// mover is one run of Move.
type mover struct {
	*Store
	config  MoveConfig
	token   string
	lock    string   // value of the mover's locks
	live    []string // the old and new nodes, without the lost ones
	table   *table
	states  map[string][]string // by node and partition, the state at the start; empty for lost nodes
	renewed time.Time
	result  MoveResult
}

// Move moves the partitions of a ring to the nodes of c.To, one after the other, while other processes read and write.
// It may be killed at any moment; the next Move continues.
func (s *Store) Move(ctx context.Context, c MoveConfig) (MoveResult, error) {
	m := &mover{Store: s, renewed: time.Now(), config: c, token: rand.Text(), states: make(map[string][]string)}
	m.lock = m.token + " " + c.Machine
	if s.c.ReadOnly && !c.DryRun {
		return MoveResult{}, errReadOnly
	}
	defer m.unlock(context.WithoutCancel(ctx))
	targets, err := s.servers.Join(c.To)
	if err != nil {
		return MoveResult{}, fmt.Errorf("--to: %w", err)
	}
	err = m.readStates(ctx, targets)
	if err == nil {
		err = m.plan(ctx, rendezvous(targets))
	}
	if err == nil && s.OnPlan != nil {
		s.OnPlan(len(m.result.Partitions))
	}
	if err == nil && !c.DryRun {
		err = m.movePartitions(ctx, targets)
	}
	return m.result, err
}

// readStates reads the table, and the states of all partitions on all nodes. It takes the locks, except in a dry run.
func (m *mover) readStates(ctx context.Context, targets []string) error {
	m.ring.mu.Lock()
	failed, err := m.loadTables(ctx)
	m.ring.mu.Unlock()
	if err != nil {
		return err
	}
	old := m.ring.table.Load()
	m.table = old.clone()
	for _, n := range targets {
		if !slices.Contains(m.table.Nodes, n) {
			m.table.Nodes = append(m.table.Nodes, n)
		}
	}
	if err := m.checkLost(old.Nodes, targets, failed); err != nil {
		return err
	}
	m.live = slices.DeleteFunc(slices.Clone(m.table.Nodes), func(n string) bool { return slices.Contains(m.config.Lost, n) })
	for _, n := range m.live {
		if failed[n] == nil {
			_, failed[n] = m.readKeys(ctx, n, moverKey)
		}
		switch err := failed[n]; {
		case err != nil && !slices.Contains(old.Nodes, n):
			return fmt.Errorf("node %s, which is to have partitions, cannot be used: %w", n, err)
		case err != nil && topology.IsReply(err):
			return err
		case err != nil:
			return fmt.Errorf("%w: is it up, and is its TLS right? Only if it is gone for good, and its hits with it, say --lost %s", err, n)
		}
	}
	if err := m.refuseAliases(ctx, old.Nodes); err != nil {
		return err
	}
	if err := m.lockAndRead(ctx); err != nil {
		return err
	}
	for p := range m.table.NodeOf {
		if err := m.findOwner(p); err != nil {
			return err
		}
	}
	return nil
}

// checkLost returns an error if a node of config.Lost is not lost. Else it sets the states of the lost nodes to empty
// ones.
func (m *mover) checkLost(before, targets []string, failed map[string]error) error {
	for _, n := range m.config.Lost {
		ended := slices.Equal(before, targets) // an earlier run has moved everything and removed the node
		switch {
		case !strings.ContainsAny(n, ":/"):
			return fmt.Errorf("--lost %s: it has no port: write host:port, as the ring names the node", n)
		case slices.Contains(targets, n):
			return fmt.Errorf("--lost %s: --to names it too: leave it out there, or start it", n)
		case !slices.Contains(before, n) && !ended:
			return fmt.Errorf("--lost %s: the ring has no such node, but %s", n, strings.Join(before, ", "))
		case failed[n] == nil && !ended:
			return fmt.Errorf("node %s is not lost, it answers: without --lost its hits move too", n)
		}
		m.states[n] = make([]string, history.Partitions)
	}
	return nil
}

// refuseAliases returns an error if a new node is an old one under another name: an operator who empties the new node
// would delete the history.
func (m *mover) refuseAliases(ctx context.Context, before []string) error {
	names := make(map[string]string) // by server and database
	for _, n := range m.live {       // old nodes come first
		answer, err := pipeline.Do(ctx, m.servers, topology.Destination{Node: n}, "info")
		if err != nil {
			return err
		}
		id, ok := parseInfo(answer)["run_id"]
		if host, database, has := strings.Cut(n, "/"); has && host != "" { // not the path of a socket
			id += "/" + database
		}
		if other := names[id]; ok && other != "" && !slices.Contains(before, n) {
			return fmt.Errorf("%s and %s are the same server: name it once, as the ring does", n, other)
		}
		names[id] = n
	}
	return nil
}

// lockAndRead takes the locks of all nodes, and reads the states of their partitions. It removes the fences of a mover
// that has lost its locks, so that this mover can no longer switch a partition, should it still run.
func (m *mover) lockAndRead(ctx context.Context) (err error) {
	var keys []string
	for p := range history.Partitions {
		keys = append(keys, formatKey(history.Partition(p)))
	}
	for _, n := range m.live {
		if !m.config.DryRun {
			err = m.takeLock(ctx, n, "")
		}
		if err == nil {
			m.states[n], err = m.readKeys(ctx, n, keys...)
		}
		for p, state := range m.states[n] {
			if err == nil && strings.HasPrefix(state, format+" moving ") && !m.config.DryRun {
				m.states[n][p], err = m.compareAndSwap(ctx, n, keys[p], state, format, 0)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findOwner corrects the table for a partition, as a mover may have died before it wrote the table: a tombstone
// overrides the table, and a partition that has already left a lost node is not lost.
func (m *mover) findOwner(p int) error {
	for range m.table.Nodes {
		if kind, _, to := parseState(m.states[m.table.Nodes[m.table.NodeOf[p]]][p]); kind == "moved" {
			if m.table.NodeOf[p] = slices.Index(m.table.Nodes, to); m.table.NodeOf[p] < 0 {
				return fmt.Errorf("partition %d has moved to %s, which no table names: name it in the configuration", p, to)
			}
		}
	}
	for _, n := range m.live {
		if slices.Contains(m.config.Lost, m.table.Nodes[m.table.NodeOf[p]]) && m.states[n][p] == format {
			m.table.NodeOf[p] = slices.Index(m.table.Nodes, n)
		}
	}
	return nil
}

// parseState returns the words of a state after the format: moving, copying or moved; the mover's token; and, of a
// tombstone, the node.
func parseState(state string) (kind, token, to string) {
	word := append(strings.Fields(state), "", "", "", "")
	return word[1], word[2], word[3]
}

// plan lists the partitions that move. In a dry run it estimates their sizes and the duration.
func (m *mover) plan(ctx context.Context, goal *table) error {
	m.result = MoveResult{Version: m.table.Version, Nodes: goal.Nodes, Partitions: []MovedPartition{}} // not null in JSON
	var bytes, sampledBytes uint64
	var took time.Duration
	for i := range history.Partitions {
		p := history.Partition(i)
		one := MovedPartition{Partition: p, From: m.table.node(p), To: goal.node(p)}
		if one.From == one.To {
			continue
		}
		if m.states[one.To][i] == format {
			return fmt.Errorf("partition %d is at %s already, and at %s: the first holds another history, or has been lost before: "+
				"empty it, or leave it out", p, one.To, one.From)
		}
		one.Lost = slices.Contains(m.config.Lost, one.From)
		if m.config.DryRun && !one.Lost {
			from := m.storeAt(one.From, m.states[one.From][i])
			ids, damage, err := from.scanNames(ctx, p, &history.Query{}, math.Inf(1))
			if err = cmp.Or(err, errors.Join(damage...)); err != nil {
				return err
			}
			one.Series = uint64(len(ids))
			begin := time.Now()
			n, err := m.measure(ctx, from, p, ids[:min(len(ids), sampled)])
			if err != nil {
				return err
			}
			took += time.Since(begin)
			sampledBytes += n
			one.Bytes = n * one.Series / max(1, uint64(min(len(ids), sampled)))
			bytes += one.Bytes
		}
		m.result.Partitions = append(m.result.Partitions, one)
	}
	if sampledBytes > 0 { // a move reads once to copy, writes, and reads both sides to compare
		m.result.Expected = time.Duration(4 * float64(took) * float64(bytes) / float64(sampledBytes)).Round(time.Second)
	}
	return nil
}

// measure returns the size of the dumps of some series, in bytes.
func (m *mover) measure(ctx context.Context, from *Store, p history.Partition, ids []history.ID) (bytes uint64, err error) {
	records, _, err := from.readRecords(ctx, p, ids)
	for i := 0; i < len(records) && err == nil; i++ {
		var dumps pipeline.Reply
		dumps, err = pipeline.Run(ctx, m.servers, topology.Destination{Node: from.pinned.node}, m.scripts.dump, records[i].allKeys())
		bytes += dumpBytes(dumps)
	}
	return bytes, err
}

func dumpBytes(dumps pipeline.Reply) (bytes uint64) {
	for i := range dumps {
		bytes += uint64(len(item[string](dumps, i)))
	}
	return bytes
}

// allKeys returns the keys of a series: first that of its hash, then those of its chunks.
func (r *record) allKeys() []string {
	keys := []string{r.key}
	for _, c := range r.chunks {
		keys = append(keys, chunkKeys(r.key, c)...)
	}
	return keys
}

// movePartitions cleans up after a mover that died, moves the planned partitions, and stores the final table.
func (m *mover) movePartitions(ctx context.Context, targets []string) error {
	before := m.ring.table.Load()
	m.table.Left = len(m.result.Partitions)
	if m.table.Left > 0 || before.Left > 0 || !slices.Equal(before.Nodes, targets) {
		if err := m.storeTable(ctx); err != nil { // from now on processes also read the tables of new nodes
			return err
		}
	}
	if err := m.cleanUp(ctx); err != nil {
		return err
	}
	for i := range m.result.Partitions {
		if err := m.move(ctx, &m.result.Partitions[i]); err != nil {
			return err
		}
		if m.OnVisit != nil {
			m.OnVisit()
		}
	}
	goal := rendezvous(targets)
	if slices.Equal(m.table.Nodes, targets) {
		return nil
	}
	m.table.Nodes, m.table.NodeOf = targets, goal.NodeOf
	return m.storeTable(ctx)
}

// unlock releases the locks, and with them the fence. A lock that cannot be released expires.
func (m *mover) unlock(ctx context.Context) {
	for _, n := range m.live {
		_, _ = m.compareAndSwap(ctx, n, moverKey, m.lock, "", 0)
	}
}

func (m *mover) takeLock(ctx context.Context, node, before string) error {
	holder, err := m.compareAndSwap(ctx, node, moverKey, before, m.lock, lockTime)
	if err == nil && holder != m.lock {
		_, machine, _ := strings.Cut(holder, " ")
		err = fmt.Errorf("another move runs from host %s, or was killed less than %.0f s ago (lock at %s): wait, then run this again", machine, lockTime.Seconds(), node)
	}
	return err
}

// cleanUp completes the work of a mover that died: it removes the remains of partitions that have moved, and copies
// that were never switched to.
func (m *mover) cleanUp(ctx context.Context) error {
	for _, n := range m.live {
		for i, state := range m.states[n] {
			p, after, isOwner := history.Partition(i), "", n == m.table.Nodes[m.table.NodeOf[i]]
			kind, _, _ := parseState(state)
			var err error
			if kind == "moved" || kind == "copying" && !isOwner {
				err = m.remove(ctx, n, p, state)
			}
			if isOwner {
				after = format // the switch was made
			}
			if err == nil && kind == "copying" {
				m.states[n][i], err = m.compareAndSwap(ctx, n, formatKey(p), state, after, 0)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// storeTable stores the table as the next version on all nodes.
func (m *mover) storeTable(ctx context.Context) error {
	m.table.Version++
	for _, n := range m.live {
		stored, err := m.placement(ctx, n, m.table.text(), m.table.Version)
		if err == nil && stored != m.table.text() {
			err = fmt.Errorf("node %s has another table of version %d: another mover is at work", n, m.table.Version)
		}
		if err != nil {
			return err
		}
	}
	m.result.Version = m.table.Version
	m.ring.mu.Lock()
	defer m.ring.mu.Unlock()
	m.useTable(m.table.clone())
	return nil
}

// readKeys returns the values of keys of a node.
func (m *mover) readKeys(ctx context.Context, node string, keys ...string) (values []string, err error) {
	reply, err := pipeline.Run(ctx, m.servers, topology.Destination{Node: node}, m.scripts.state, keys)
	for i := range keys {
		values = append(values, item[string](reply, i))
	}
	return values, err
}

// compareAndSwap changes the value of a key of a node from one to another, with a TTL, 0 for none. A value of "" means
// that there is no key. It returns the value that the key then has.
func (m *mover) compareAndSwap(ctx context.Context, node, key, from, to string, ttl time.Duration) (value string, err error) {
	reply, err := pipeline.Run(ctx, m.servers, topology.Destination{Node: node}, m.scripts.state, []string{key}, from, to, ttl.Milliseconds())
	return item[string](reply, 0), err
}
