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
		r := downsampler{Store: s, p: history.Partition(p), now: now, seen: make(map[seriesHash]bool)}
		for more := true; more; {
			some, err := r.transaction(ctx)
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
func (r *downsampler) transaction(ctx context.Context) (history.DownsampleResult, error) {
	r.budget, r.did = maxMoves, history.DownsampleResult{}
	err := r.withLock(ctx, func() error { return r.update(r.moveSome) })
	switch {
	case err == nil:
		r.c.Step("roll: after")
	case !errors.Is(err, errNothing):
		return history.DownsampleResult{}, err
	}
	if r.budget > 0 {
		r.did.Partitions = 1
	}
	return r.did, nil
}

// moveSome deletes old positions and moves due chunks, until none is left or the budget is used. It begins with the finest
// tier, so that each chunk moves once.
func (r *downsampler) moveSome(tx *bolt.Tx) (err error) {
	if r.table, err = r.Store.table(tx, r.p); err != nil {
		return err
	}
	deleted, err := r.deletePositions()
	if err != nil {
		return err
	}
	for r.budget > 0 && (len(r.due) > 0 || int(r.tier) < history.Tiers) {
		if len(r.due) == 0 {
			r.due, err = r.findDue()
			r.tier++
		} else {
			err, r.due = r.move(r.due[0]), r.due[1:]
		}
		if err != nil {
			return err
		}
	}
	if !deleted && r.did == (history.DownsampleResult{}) {
		return errNothing
	}
	r.c.Step("roll: moved")
	return nil
}

// deletePositions deletes the positions of writers that ended long ago, and reports whether there were any.
func (r *downsampler) deletePositions() (bool, error) {
	before := r.now - int64(history.ForgetAfter/time.Second)
	var gone [][]byte
	for key, row := range r.table.withPrefix([]byte{byte(r.p), positionRow}) {
		was, err := decodePosition(row)
		if err != nil {
			return false, r.table.damaged(key, err)
		}
		if was.at <= before {
			gone = append(gone, bytes.Clone(key))
		}
	}
	for _, key := range gone {
		if err := r.table.rows.Delete(key); err != nil {
			return false, err
		}
	}
	return len(gone) > 0, nil
}

// findDue returns the due chunks of the tier, oldest first, and chunks of days some of which may be past the retention.
func (r *downsampler) findDue() (found []dueChunk, err error) {
	chunks, err := r.table.chunks(r.tier, r.tier)
	for _, c := range chunks {
		if r.c.Keep.Due(c, c.Start()) > r.now {
			break
		}
		for key := range r.table.withPrefix(chunksKey(r.p, c)) {
			_, hash, err := readChunkKey(key)
			if err != nil {
				return nil, r.table.damaged(key, err)
			}
			found = append(found, dueChunk{hash, c})
		}
	}
	return found, err
}

// move moves a chunk, or drops its days past the retention. It does nothing if the chunk is gone, or no day is that old.
func (r *downsampler) move(d dueChunk) error {
	key := seriesKey(r.p, d.hash)
	row, found, err := get(r.table, key, decodeSeries)
	if err == nil && !found && r.table.rows.Get(chunkKey(r.p, d.chunk, d.hash)) == nil {
		return nil // another job removed the series
	}
	if err == nil && !found {
		err = r.table.damaged(key, errors.New("the series is missing, its chunks are there"))
	}
	if err != nil {
		return err
	}
	before := r.did
	err = row.Downsample(&seriesChunks{r.table, d.hash}, d.chunk, &r.c.Keep, r.now, &r.did)
	if err != nil || r.did == before {
		return err
	}
	r.budget--
	if !r.seen[d.hash] {
		r.seen[d.hash] = true
		r.did.Series++
	}
	if id, err := readID(row.id); err == nil && row.Gone(id) {
		return r.table.rows.Delete(key)
	}
	return r.table.rows.Put(key, row.encode())
}
