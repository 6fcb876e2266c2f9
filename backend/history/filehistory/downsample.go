package filehistory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// maxMoves bounds the chunks that a transaction moves, so that writers wait only a few milliseconds.
const maxMoves = 100

// Downsample implements [history.Store]. It runs transactions of at most maxMoves chunks. After an error about a
// damaged partition it continues with the next one, and in the end returns the first error.
func (s *Store) Downsample(ctx context.Context, at time.Time) (history.DownsampleResult, error) {
	now := min(at.Unix(), s.c.Now().Unix())
	var total history.DownsampleResult
	var damage error
	for p := range history.Partitions {
		j := downsampler{Store: s, p: history.Partition(p), now: now, seen: make(map[seriesHash]bool)}
		for more := true; more; {
			result, err := j.transaction(ctx)
			if err != nil && (!errors.Is(err, ErrDamaged) || s.damaged.Load() != nil) {
				return total, err
			}
			damage = cmp.Or(damage, err)
			more = err == nil && result.Partitions == 0
			total.Add(result)
		}
	}
	return total, damage
}

// downsampler downsamples one partition.
type downsampler struct {
	*Store
	p    history.Partition
	now  int64
	tier history.Tier        // the next tier to search for due chunks
	due  []dueChunk          // due chunks of earlier tiers that are not moved yet
	seen map[seriesHash]bool // series that are counted in the result

	// The state of the present transaction.
	table  *table
	budget int // number of chunks that it may still move
	did    history.DownsampleResult
}

// dueChunk is a chunk of a series that has to be moved, or may have expired days.
type dueChunk struct {
	hash  seriesHash
	chunk history.Chunk
}

// transaction runs one transaction, and returns its result. The result counts the partition if nothing is left to do.
func (j *downsampler) transaction(ctx context.Context) (history.DownsampleResult, error) {
	j.budget, j.did = maxMoves, history.DownsampleResult{}
	err := j.withLock(ctx, func() error { return j.update(j.moveSome) })
	switch {
	case err == nil:
		j.c.Step("downsample: after")
	case !errors.Is(err, errNothing):
		return history.DownsampleResult{}, err
	}
	if j.budget > 0 {
		j.did.Partitions = 1
	}
	return j.did, nil
}

// moveSome deletes old positions and moves due chunks, until none is left or the budget is used up. It begins with the
// finest tier, so that each chunk moves once.
func (j *downsampler) moveSome(tx *bolt.Tx) (err error) {
	if j.table, err = j.Store.table(tx, j.p); err != nil {
		return err
	}
	deleted, err := j.deletePositions()
	if err != nil {
		return err
	}
	for j.budget > 0 && (len(j.due) > 0 || int(j.tier) < history.Tiers) {
		if len(j.due) == 0 {
			j.due, err = j.findDue()
			j.tier++
		} else {
			err, j.due = j.move(j.due[0]), j.due[1:]
		}
		if err != nil {
			return err
		}
	}
	if !deleted && j.did == (history.DownsampleResult{}) {
		return errNothing
	}
	j.c.Step("downsample: moved")
	return nil
}

// deletePositions deletes the positions of writers that have not written for WriterTTL, and reports whether there were
// any.
func (j *downsampler) deletePositions() (bool, error) {
	before := j.now - int64(history.WriterTTL/time.Second)
	var old [][]byte
	for key, row := range j.table.withPrefix([]byte{byte(j.p), positionRow}) {
		pos, err := decodePosition(row)
		if err != nil {
			return false, j.table.damaged(key, err)
		}
		if pos.at <= before {
			old = append(old, bytes.Clone(key))
		}
	}
	for _, key := range old {
		if err := j.table.rows.Delete(key); err != nil {
			return false, err
		}
	}
	return len(old) > 0, nil
}

// findDue returns the due chunks of the tier, oldest first, and chunks of days that may have expired days.
func (j *downsampler) findDue() (found []dueChunk, err error) {
	chunks, err := j.table.chunks(j.tier, j.tier)
	for _, c := range chunks {
		if j.c.Retention.Due(c, c.Start()) > j.now {
			break
		}
		for key := range j.table.withPrefix(chunksKey(j.p, c)) {
			_, hash, err := readChunkKey(key)
			if err != nil {
				return nil, j.table.damaged(key, err)
			}
			found = append(found, dueChunk{hash, c})
		}
	}
	return found, err
}

// move moves a chunk, or drops its expired days. It does nothing if there is no such chunk any more, or no day has
// expired.
func (j *downsampler) move(d dueChunk) error {
	key := seriesKey(j.p, d.hash)
	row, found, err := get(j.table, key, decodeSeries)
	if err == nil && !found && j.table.rows.Get(chunkKey(j.p, d.chunk, d.hash)) == nil {
		return nil // another job removed the series
	}
	if err == nil && !found {
		err = j.table.damaged(key, errors.New("there are chunks of a series that does not exist"))
	}
	if err != nil {
		return err
	}
	before := j.did
	err = row.Downsample(&seriesChunks{j.table, d.hash}, d.chunk, &j.c.Retention, j.now, &j.did)
	if err != nil || j.did == before {
		return err
	}
	j.budget--
	if !j.seen[d.hash] {
		j.seen[d.hash] = true
		j.did.Series++
	}
	if id, err := readID(row.id); err == nil && row.FullyExpired(id) {
		return j.table.rows.Delete(key)
	}
	return j.table.rows.Put(key, row.encode())
}
