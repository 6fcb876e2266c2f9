package redishistory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// move moves a partition to another node.
func (m *mover) move(ctx context.Context, one *MovedPartition) error {
	p := one.Partition
	if !one.Lost {
		if err := m.raiseFence(ctx, one.From, p); err != nil {
			return err
		}
		m.step("fenced")
	}
	state, err := m.compareAndSwap(ctx, one.To, formatKey(p), m.states[one.To][p], m.copyingState(), 0)
	if err == nil && state != m.copyingState() {
		err = fmt.Errorf("partition %d has come to %s meanwhile: another mover was at work", p, one.To)
	}
	if m.step("copying"); err == nil && !one.Lost {
		err = m.copyAndCompare(ctx, one)
	}
	tombstone := strings.Join([]string{format, "moved", m.token, one.To}, " ")
	if err == nil && !one.Lost {
		err = m.switchTo(ctx, one, tombstone)
	}
	if err != nil {
		return err
	}
	if _, err := m.compareAndSwap(ctx, one.To, formatKey(p), m.copyingState(), format, 0); err != nil {
		return err
	}
	if err := m.waitDurable(ctx, one.To); err != nil {
		return err
	}
	one.Moved = true
	m.table.NodeOf[p] = slices.Index(m.table.Nodes, one.To)
	m.table.Left--
	m.table.Bytes += one.Bytes
	m.step("table")
	if err := m.storeTable(ctx); err != nil || one.Lost {
		return err
	}
	m.step("remove")
	err = m.remove(ctx, one.From, p, tombstone)
	m.step("removed")
	return err
}

// switchTo replaces the fence by a tombstone, after the copy is durable.
func (m *mover) switchTo(ctx context.Context, one *MovedPartition, tombstone string) error {
	if err := m.waitDurable(ctx, one.To); err != nil {
		return err
	}
	m.step("switch")
	for try := range 2 { // twice, as the node may have been killed before it had written the tombstone to disk
		state, err := m.compareAndSwap(ctx, one.From, formatKey(one.Partition), m.fenceState(), tombstone, 0)
		if err == nil && state != tombstone {
			err = fmt.Errorf("partition %d was not switched to %s, as its fence at %s has ended: run it again", one.Partition, one.To, one.From)
		}
		if err != nil {
			return err
		}
		if try == 0 {
			m.step("switched")
		}
		if err := m.waitDurable(ctx, one.From); err != nil {
			return err
		}
	}
	return nil
}

// waitDurable waits until a node has written its data to its append-only file, and its replicas have it.
func (m *mover) waitDurable(ctx context.Context, node string) error {
	targets := make(map[string]uint64)
	for begin := time.Now(); ; {
		answer, err := pipeline.Do(ctx, m.servers, topology.Destination{Node: node}, "info")
		if err != nil {
			return err
		}
		info := parseInfo(answer)
		if unwritten := info["aof_buffer_length"]; unwritten != "" && unwritten != "0" {
			err = fmt.Errorf("%s does not write its append-only file", node)
		} else if err = checkReplicas(info, node, targets); err == nil {
			return nil
		}
		if time.Since(begin) > lockTime/3 || ctx.Err() != nil {
			return err
		}
		time.Sleep(replicaPollInterval)
	}
}

func (m *mover) step(name string) { m.c.Step("move: " + name) }

// copyingState is the state of a partition at its new node until the switch.
func (m *mover) copyingState() string { return format + " copying " + m.token }

// copyAndCompare copies a fenced partition, and compares both sides.
func (m *mover) copyAndCompare(ctx context.Context, one *MovedPartition) error {
	p, from, to := one.Partition, m.storeAt(one.From, m.fenceState()), m.storeAt(one.To, m.copyingState())
	ids, damage, err := from.scanNames(ctx, p, &history.Query{}, math.Inf(1))
	if err = cmp.Or(err, errors.Join(damage...)); err != nil {
		return err
	}
	one.Series = uint64(len(ids))
	for _, key := range []string{dueKey(p), writersKey(p), denialsKeyOf(p)} {
		if err := m.copyPieces(ctx, one, from, key); err != nil {
			return err
		}
	}
	if err := m.copyKeys(ctx, one, agesKey(p)); err != nil {
		return err
	}
	for page := range slices.Chunk(ids, pageSize) {
		records, _, err := from.readRecords(ctx, p, page)
		for i := 0; i < len(records) && err == nil; i++ {
			if err = records[i].damage; err == nil {
				err = m.copyKeys(ctx, one, records[i].allKeys()...)
			}
		}
		if err != nil {
			return fmt.Errorf("partition %d cannot be copied: %w", p, err)
		}
	}
	m.step("compare")
	here, err := m.sums(ctx, from, p)
	if err != nil {
		return err
	}
	there, err := m.sums(ctx, to, p)
	if err == nil && !maps.Equal(here, there) {
		err = fmt.Errorf("partition %d of %s is not what it was copied from at %s: %d series and %d", p, one.To, one.From, len(there), len(here))
	}
	return err
}

// copyKeys copies keys of a partition by DUMP and RESTORE.
func (m *mover) copyKeys(ctx context.Context, one *MovedPartition, keys ...string) error {
	for some := range slices.Chunk(keys, dumpSize) {
		dumps, err := pipeline.Run(ctx, m.servers, topology.Destination{Node: one.From}, m.scripts.dump, some)
		if err != nil {
			return err
		}
		one.Bytes += dumpBytes(dumps)
		if err := m.copyTo(ctx, one, some, "restore", dumps...); err != nil {
			return err
		}
	}
	return nil
}

// copyPieces copies a key in pieces, as it may have a million members, and one command for all would block the servers
// for long.
func (m *mover) copyPieces(ctx context.Context, one *MovedPartition, from *Store, key string) error {
	scan, add := "zscan", "zadd"
	if key == writersKey(one.Partition) {
		scan, add = "hscan", "hset"
	}
	var all []any
	err := from.scan(ctx, one.Partition, func(name, value string) {
		one.Bytes += uint64(len(name) + len(value))
		if scan == "zscan" {
			name, value = value, name
		}
		all = append(all, name, value)
	}, scan, key)
	for piece := range slices.Chunk(all, 2*scanCount) {
		if err == nil {
			err = m.copyTo(ctx, one, []string{key}, add, piece...)
		}
	}
	return err
}

// copyTo writes a part of the copy to the new node.
func (m *mover) copyTo(ctx context.Context, one *MovedPartition, keys []string, command string, args ...any) error {
	if err := m.renew(ctx); err != nil {
		return err
	}
	m.step("copy")
	return m.put(ctx, one.To, one.Partition, m.copyingState(), keys, command, args...)
}

// put runs a command on keys of a partition, if the partition has this state.
func (m *mover) put(ctx context.Context, node string, p history.Partition, state string, keys []string, command string, args ...any) error {
	reply, err := pipeline.Run(ctx, m.servers, topology.Destination{Node: node}, m.scripts.put, append([]string{formatKey(p)}, keys...),
		append([]any{state, command}, args...)...)
	if err == nil && item[string](reply, 0) != "put" {
		err = fmt.Errorf("partition %d at %s is another mover's: %q", p, node, item[string](reply, 1))
	}
	return err
}

// sums returns a hash of the totals and points of each series of a partition.
func (m *mover) sums(ctx context.Context, at *Store, p history.Partition) (map[history.ID]uint64, error) {
	all := make(map[history.ID]uint64)
	always := history.Query{From: math.MinInt64, To: math.MaxInt64}
	err := at.queryPartition(ctx, p, &always, func(s history.Series) error {
		var h maphash.Hash
		h.SetSeed(hashSeed)
		maphash.WriteComparable(&h, [2]uint64{s.Lifetime, s.Expired})
		for _, point := range s.Points {
			maphash.WriteComparable(&h, point)
		}
		all[s.ID] = h.Sum64()
		return s.Err
	})
	return all, err
}

var hashSeed = maphash.MakeSeed()

// remove removes all keys of a partition from a node except its state. It removes keys that name other keys last.
func (m *mover) remove(ctx context.Context, node string, p history.Partition, state string) error {
	at := m.storeAt(node, state)
	ids, _, err := at.scanNames(ctx, p, &history.Query{}, math.Inf(1)) // invalid names have no keys
	for page := range slices.Chunk(ids, pageSize) {
		var records []record
		if err == nil {
			records, _, err = at.readRecords(ctx, p, page)
		}
		for i := 0; i < len(records) && err == nil; i++ {
			keys := records[i].allKeys()
			slices.Reverse(keys)
			for some := range slices.Chunk(keys, dumpSize) {
				if err == nil {
					err = m.put(ctx, node, p, state, some, "unlink")
				}
			}
		}
	}
	if err != nil {
		return err
	}
	return m.put(ctx, node, p, state, []string{writersKey(p), agesKey(p), denialsKeyOf(p), probeKey(p), dueKey(p)}, "unlink")
}

// storeAt returns a store that reads a partition with this state at one node, and follows no tombstone.
func (m *mover) storeAt(node, state string) *Store {
	_, token, _ := parseState(state)
	return &Store{c: m.c, servers: m.servers, scripts: m.scripts, log: m.log, pinned: &route{node, token},
		renew: m.renew}
}

// fenceState is the state of a partition at its old node until the switch.
func (m *mover) fenceState() string { return format + " moving " + m.token }

// raiseFence fences a partition at its node: other processes may only read it while the mover holds the node's lock.
func (m *mover) raiseFence(ctx context.Context, node string, p history.Partition) error {
	state, err := m.compareAndSwap(ctx, node, formatKey(p), format, m.fenceState(), 0)
	if err == nil && state == "" {
		state, err = m.compareAndSwap(ctx, node, formatKey(p), "", m.fenceState(), 0)
	}
	if err == nil && state != m.fenceState() {
		err = fmt.Errorf("partition %d at %s has become %q: run it again", p, node, state)
	}
	return err
}

// renew renews the locks if a third of lockTime has passed. A dry run has no locks.
func (m *mover) renew(ctx context.Context) error {
	if m.config.DryRun || time.Since(m.renewed) < lockTime/3 {
		return ctx.Err()
	}
	m.renewed = time.Now()
	for _, n := range m.live {
		if err := m.takeLock(ctx, n, m.lock); err != nil {
			return err
		}
	}
	return nil
}
