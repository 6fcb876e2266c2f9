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

// maxMoves is the most chunks that a transaction moves, so that writers wait for some milliseconds only.
const maxMoves = 100

// Downsample implements [history.Store]. It goes through the partitions in transactions of at most maxMoves chunks. After a
// damaged partition it goes on with the next, and in the end reports the first error.
func (s *Store) Downsample(ctx context.Context, at time.Time) (history.DownsampleResult, error) {
	now := min(at.Unix(), s.c.Now().Unix())
	var did history.DownsampleResult
	var damage error
	for p := range history.Partitions {
		j := downsampler{Store: s, p: history.Partition(p), now: now, seen: make(map[seriesHash]bool)}
		for more := true; more; {
			some, err := j.transaction(ctx)
			if err != nil && (!errors.Is(err, ErrDamaged) || s.damaged.Load() != nil) {
				return did, err
			}
			damage = cmp.Or(damage, err)
			more = err == nil && some.Partitions == 0
			did.Add(some)
		}
	}
	return did, damage
}

// downsampler downsamples one partition.
type downsampler struct {
	*Store
	p    history.Partition
	now  int64
	tier history.Tier        // the next tier to search for due chunks
	due  []dueChunk          // found in earlier tiers, not moved yet
	seen map[seriesHash]bool // series that were moved or dropped

	// Of the present transaction:
	table  *table
	budget int // chunks that it may still move
	did    history.DownsampleResult
}

// dueChunk is a chunk of a series that has to be moved, or may have days to drop.
type dueChunk struct {
	hash  seriesHash
	chunk history.Chunk
}

// transaction runs one transaction, and returns what it committed. It counts the partition when nothing is left to do.
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

// moveSome deletes old positions and moves due chunks, until none is left or the budget is used. It begins with the finest
// tier, so that each chunk moves once.
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

// deletePositions deletes the positions of writers that ended long ago, and reports whether there were any.
func (j *downsampler) deletePositions() (bool, error) {
	before := j.now - int64(history.WriterTTL/time.Second)
	var gone [][]byte
	for key, row := range j.table.withPrefix([]byte{byte(j.p), positionRow}) {
		was, err := decodePosition(row)
		if err != nil {
			return false, j.table.damaged(key, err)
		}
		if was.at <= before {
			gone = append(gone, bytes.Clone(key))
		}
	}
	for _, key := range gone {
		if err := j.table.rows.Delete(key); err != nil {
			return false, err
		}
	}
	return len(gone) > 0, nil
}

// findDue returns the due chunks of the tier, oldest first, and chunks of days some of which may be past the retention.
func (j *downsampler) findDue() (found []dueChunk, err error) {
	chunks, err := j.table.chunks(j.tier, j.tier)
	for _, c := range chunks {
		if j.c.Keep.Due(c, c.Start()) > j.now {
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

// move moves a chunk, or drops its days past the retention. It does nothing if the chunk is gone, or no day is that old.
func (j *downsampler) move(d dueChunk) error {
	key := seriesKey(j.p, d.hash)
	row, found, err := get(j.table, key, decodeSeries)
	if err == nil && !found && j.table.rows.Get(chunkKey(j.p, d.chunk, d.hash)) == nil {
		return nil // another job removed the series
	}
	if err == nil && !found {
		err = j.table.damaged(key, errors.New("the series is missing, its chunks are there"))
	}
	if err != nil {
		return err
	}
	before := j.did
	err = row.Downsample(&seriesChunks{j.table, d.hash}, d.chunk, &j.c.Keep, j.now, &j.did)
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
