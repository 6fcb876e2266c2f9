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
	// moverKey is on every node of a ring while a mover is at work, and holds its token and its machine.
	moverKey = prefix + ":mover"
	// lockTime is the TTL of a mover's locks, and with them of its fence. A mover renews them after a third of it.
	lockTime = 30 * time.Second
	// dumpSize is how many keys are copied with one script, and sampled how many series of a partition a plan measures.
	dumpSize, sampled = 50, 10
)

// MoveConfig is what Move is to do.
type MoveConfig struct {
	To      string   // the nodes of the ring afterwards, as a URL names them
	Lost    []string // nodes that are gone for good: what is on them begins anew
	Machine string   // for people who are told that a mover is at work
	DryRun  bool     // only find out what would be moved
}

// MovedPartition is a partition that moves, and what of it was copied; in a dry run, what is expected from a sample.
type MovedPartition struct {
	Partition history.Partition `json:"partition"`
	From      string            `json:"from"`
	To        string            `json:"to"`
	Lost      bool              `json:"lost,omitempty"` // its node is gone for good, and so are its hits
	Moved     bool              `json:"moved"`
	Series    uint64            `json:"series"`
	Bytes     uint64            `json:"bytes"`
}

// MoveResult is what a mover did, or would do.
type MoveResult struct {
	Version    int              `json:"version"` // of the table
	Nodes      []string         `json:"nodes"`
	Partitions []MovedPartition `json:"partitions"` // that move
	// Expected is, in a dry run, how long it will take at the speed of a sample.
	Expected time.Duration `json:"expected_ns,omitempty"`
}

// mover is one run of Move.
type mover struct {
	*Store
	config  MoveConfig
	token   string
	lock    string   // value of its locks
	live    []string // the nodes of before and after, without those lost
	table   *table
	states  map[string][]string // by node and partition, as found at the start; empty for lost nodes
	renewed time.Time
	result  MoveResult
}

// Move brings the partitions of a ring to where they belong on other nodes, one after the other, while weirs count and
// read. It may be killed anywhere: the next one goes on.
func (s *Store) Move(ctx context.Context, c MoveConfig) (MoveResult, error) {
	m := &mover{Store: s, renewed: time.Now(), config: c, token: rand.Text(), states: make(map[string][]string)}
	m.lock = m.token + " " + c.Machine
	if s.c.ReadOnly && !c.DryRun {
		return MoveResult{}, errReadOnly
	}
	defer m.unlock(context.WithoutCancel(ctx)) // of one that is stopped, too
	targets, err := s.servers.Join(c.To)
	if err != nil {
		return MoveResult{}, fmt.Errorf("--to: %w", err)
	}
	err = m.begin(ctx, targets)
	if err == nil {
		err = m.plan(ctx, rendezvous(targets))
	}
	if err == nil && s.OnPlan != nil {
		s.OnPlan(len(m.result.Partitions))
	}
	if err == nil && !c.DryRun {
		err = m.work(ctx, targets)
	}
	return m.result, err
}

// begin reads the table and the states of all partitions on all nodes.
func (m *mover) begin(ctx context.Context, targets []string) error {
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
			_, failed[n] = m.read(ctx, n, moverKey)
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
	for p := range m.table.At {
		if err := m.findOwner(p); err != nil {
			return err
		}
	}
	return nil
}

// checkLost returns an error if a node that is called lost is none, and else has nothing known of it.
func (m *mover) checkLost(before, targets []string, failed map[string]error) error {
	for _, n := range m.config.Lost {
		ended := slices.Equal(before, targets) // an earlier run did all, and there is no such node any more
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

// refuseAliases returns an error if a node is to come that is one of before by another name: whoever was told to empty it
// would remove the history.
func (m *mover) refuseAliases(ctx context.Context, before []string) error {
	names := make(map[string]string) // by server and database
	for _, n := range m.live {       // those of before come first
		answer, err := pipeline.Do(ctx, m.servers, topology.Destination{Node: n}, "info")
		if err != nil {
			return err
		}
		id, known := parseInfo(answer)["run_id"]
		if host, database, has := strings.Cut(n, "/"); has && host != "" { // else it is the path of a socket
			id += "/" + database
		}
		if other := names[id]; known && other != "" && !slices.Contains(before, n) {
			return fmt.Errorf("%s and %s are the same server: name it once, as the ring does", n, other)
		}
		names[id] = n
	}
	return nil
}

// lockAndRead takes the locks of all nodes, and reads the states of their partitions. It takes away the fences of a mover
// that lost its locks, which then cannot switch any more, should it go on.
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
			m.states[n], err = m.read(ctx, n, keys...)
		}
		for p, state := range m.states[n] {
			if err == nil && strings.HasPrefix(state, format+" moving ") && !m.config.DryRun {
				m.states[n][p], err = m.swap(ctx, n, keys[p], state, format, 0)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// findOwner corrects the table for a partition if a mover died before it wrote the table: a tombstone overrides the table,
// and a partition that had already left a lost node is not lost.
func (m *mover) findOwner(p int) error {
	for range m.table.Nodes {
		if kind, _, to := parseState(m.states[m.table.Nodes[m.table.At[p]]][p]); kind == "moved" {
			if m.table.At[p] = slices.Index(m.table.Nodes, to); m.table.At[p] < 0 {
				return fmt.Errorf("partition %d has moved to %s, which no table names: name it in the configuration", p, to)
			}
		}
	}
	for _, n := range m.live { // of a lost node, which the partition had left before that was written
		if slices.Contains(m.config.Lost, m.table.Nodes[m.table.At[p]]) && m.states[n][p] == format {
			m.table.At[p] = slices.Index(m.table.Nodes, n)
		}
	}
	return nil
}

// parseState returns what a state says beside the format: moving, copying or moved, the mover's token, and of a tombstone
// the node; or nothing.
func parseState(state string) (kind, token, to string) {
	word := append(strings.Fields(state), "", "", "", "")
	return word[1], word[2], word[3]
}

// plan finds out which partitions move, and in a dry run what of them there is.
func (m *mover) plan(ctx context.Context, goal *table) error {
	m.result = MoveResult{Version: m.table.Version, Nodes: goal.Nodes, Partitions: []MovedPartition{}} // which JSON has a list for
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

// measure returns how many bytes the dumps of some series have.
func (m *mover) measure(ctx context.Context, from *Store, p history.Partition, ids []history.ID) (bytes uint64, err error) {
	records, _, err := from.readRecords(ctx, p, ids)
	for i := 0; i < len(records) && err == nil; i++ {
		var dumps pipeline.Reply
		dumps, err = pipeline.Run(ctx, m.servers, topology.Destination{Node: from.pinned.node}, m.scripts.dump, records[i].allKeys())
		bytes += size(dumps)
	}
	return bytes, err
}

func size(dumps pipeline.Reply) (bytes uint64) {
	for i := range dumps {
		bytes += uint64(len(item[string](dumps, i)))
	}
	return bytes
}

// allKeys are the keys of a series: its own first, and then those of its chunks.
func (r *record) allKeys() []string {
	keys := []string{r.key}
	for _, c := range r.chunks {
		keys = append(keys, chunkKeys(r.key, c)...)
	}
	return keys
}

// work cleans up after a mover that died, moves what is planned, and stores the table of the end.
func (m *mover) work(ctx context.Context, targets []string) error {
	before := m.ring.table.Load()
	m.table.Left = len(m.result.Partitions)
	if m.table.Left > 0 || before.Left > 0 || !slices.Equal(before.Nodes, targets) {
		if err := m.store(ctx); err != nil { // a node that is to get something is asked from now on
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
	m.table.Nodes, m.table.At = targets, goal.At
	return m.store(ctx)
}

// unlock gives up the locks that there are, and with them the fence. What cannot be given up ends by itself.
func (m *mover) unlock(ctx context.Context) {
	for _, n := range m.live {
		_, _ = m.swap(ctx, n, moverKey, m.lock, "", 0)
	}
}

func (m *mover) takeLock(ctx context.Context, node, before string) error {
	held, err := m.swap(ctx, node, moverKey, before, m.lock, lockTime)
	if err == nil && held != m.lock {
		_, machine, _ := strings.Cut(held, " ")
		err = fmt.Errorf("another move runs from host %s, or was killed less than %.0f s ago (lock at %s): wait, then run this again", machine, lockTime.Seconds(), node)
	}
	return err
}

// cleanUp ends what a mover has begun that died: it removes what was left of partitions that have moved, and of copies that
// were not switched to.
func (m *mover) cleanUp(ctx context.Context) error {
	for _, n := range m.live {
		for i, state := range m.states[n] {
			p, after, isOwner := history.Partition(i), "", n == m.table.Nodes[m.table.At[i]]
			kind, _, _ := parseState(state)
			var err error
			if kind == "moved" || kind == "copying" && !isOwner {
				err = m.remove(ctx, n, p, state)
			}
			if isOwner {
				after = format // the switch was made
			}
			if err == nil && kind == "copying" {
				m.states[n][i], err = m.swap(ctx, n, formatKey(p), state, after, 0)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// store stores the table as the next version on all nodes.
func (m *mover) store(ctx context.Context) error {
	m.table.Version++
	for _, n := range m.live {
		held, err := m.placement(ctx, n, m.table.text(), m.table.Version)
		if err == nil && held != m.table.text() {
			err = fmt.Errorf("node %s has another table of version %d: another mover is at work", n, m.table.Version)
		}
		if err != nil {
			return err
		}
	}
	m.result.Version = m.table.Version
	m.ring.mu.Lock()
	defer m.ring.mu.Unlock()
	m.adopt(m.table.clone())
	return nil
}

// read returns what keys of a node hold.
func (m *mover) read(ctx context.Context, node string, keys ...string) (held []string, err error) {
	reply, err := pipeline.Run(ctx, m.servers, topology.Destination{Node: node}, m.scripts.state, keys)
	for i := range keys {
		held = append(held, item[string](reply, i))
	}
	return held, err
}

// swap changes what a key of a node holds from one value to another, "" being no key, and has it last for a time, 0 for
// ever. It returns what the key then holds.
func (m *mover) swap(ctx context.Context, node, key, from, to string, lasts time.Duration) (held string, err error) {
	reply, err := pipeline.Run(ctx, m.servers, topology.Destination{Node: node}, m.scripts.state, []string{key}, from, to, lasts.Milliseconds())
	return item[string](reply, 0), err
}
