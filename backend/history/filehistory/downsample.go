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

// maxMoves is how many chunks a transaction of the job moves: some milliseconds, for which writers wait.
const maxMoves = 100

// Downsample implements [history.Store]. It goes from partition to partition in transactions of at most 100 chunks. Where a
// partition is damaged it goes on with the next, and reports the first at the end.
func (s *Store) Downsample(ctx context.Context, at time.Time) (history.DownsampleResult, error) {
	now := min(at.Unix(), s.c.Now().Unix())
	var did history.DownsampleResult
	var damage error
	for p := range history.Partitions {
		r := roller{Store: s, p: history.Partition(p), now: now, seen: make(map[seriesHash]bool)}
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

// roller runs the job in one partition.
type roller struct {
	*Store
	p    history.Partition
	now  int64
	tier history.Tier        // the next whose chunks are looked through
	due  []dueChunk          // of the tiers before, and not moved yet
	seen map[seriesHash]bool // series that were moved or dropped

	// Of the transaction that is under way.
	table  *table
	budget int // chunks that may still be moved
	did    history.DownsampleResult
}

// dueChunk is a chunk of a series that is to be moved, or that may have days to be dropped.
type dueChunk struct {
	hash  seriesHash
	chunk history.Chunk
}

// transaction does as much as one transaction should, and returns what has been done for good. It counts the partition
// when nothing is left.
func (r *roller) transaction(ctx context.Context) (history.DownsampleResult, error) {
	r.budget, r.did = maxMoves, history.DownsampleResult{}
	err := r.inTurn(ctx, func() error { return r.update(r.rollSome) })
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

// rollSome forgets writers, and moves what is due until nothing is, or the transaction has moved enough: the finest tier
// first, so that each chunk is moved once.
func (r *roller) rollSome(tx *bolt.Tx) (err error) {
	if r.table, err = r.Store.table(tx, r.p); err != nil {
		return err
	}
	forgot, err := r.forget()
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
	if !forgot && r.did == (history.DownsampleResult{}) {
		return errNothing
	}
	r.c.Step("roll: moved")
	return nil
}

// forget removes the positions of writers that have long gone, and reports whether there were any.
func (r *roller) forget() (bool, error) {
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

// findDue returns the chunks of the tier that are due, oldest first, and those of days of which some may be too old.
func (r *roller) findDue() (found []dueChunk, err error) {
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

// move moves a chunk, or drops days of it. It does nothing if it has gone, or if none of its days is too old.
func (r *roller) move(d dueChunk) error {
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
