package filehistory

import (
	"bytes"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// table is one partition in a transaction.
type table struct {
	p    history.Partition
	rows *bolt.Bucket
	name string // of the store, for messages
}

func (s *Store) table(tx *bolt.Tx, p history.Partition) (*table, error) {
	rows := tx.Bucket(rowsBucket)
	if rows == nil {
		return nil, fmt.Errorf("%s %w (it has no rows)", s.name, ErrDamaged)
	}
	return &table{p: p, rows: rows, name: s.name}, nil
}

// damaged says which row cannot be read.
func (t *table) damaged(key []byte, err error) error {
	return fmt.Errorf("%s %w (row %x: %w)", t.name, ErrDamaged, key, err)
}

func (t *table) position(writer string) (position, error) {
	key := positionKey(t.p, writer)
	row := t.rows.Get(key)
	if row == nil {
		return position{}, nil
	}
	r, err := decodePosition(row)
	if err != nil {
		return r, t.damaged(key, err)
	}
	return r, nil
}

// series is the row of a series; found says whether there is one.
func (t *table) series(n name) (r series, found bool, err error) {
	key := seriesKey(t.p, n)
	row := t.rows.Get(key)
	if row == nil {
		return series{}, false, nil
	}
	if r, err = decodeSeries(row); err != nil {
		return r, false, t.damaged(key, err)
	}
	return r, true, nil
}

func (t *table) putSeries(n name, r *series) error { return t.rows.Put(seriesKey(t.p, n), r.encode()) }

// cells are those of a series' chunk, none if it has no such chunk.
func (t *table) cells(n name, c history.Chunk) (history.Cells, error) {
	key := chunkKey(t.p, c, n)
	cells, err := c.Unpack(t.rows.Get(key))
	if err != nil {
		return nil, t.damaged(key, err)
	}
	return cells, nil
}

// putCells writes a chunk; none remove it.
func (t *table) putCells(n name, c history.Chunk, cells history.Cells) error {
	key := chunkKey(t.p, c, n)
	if len(cells) == 0 {
		return t.rows.Delete(key)
	}
	return t.rows.Put(key, c.Tier.Pack(nil, cells))
}

// move moves a chunk of a series to the next tier, and keeps r's points right. It returns how many points were in it, and
// what they became.
func (t *table) move(n name, r *series, c history.Chunk) (points int, parts []history.Part, err error) {
	cells, err := t.cells(n, c)
	if err != nil {
		return 0, nil, err
	}
	parts = c.Next(cells)
	for _, part := range parts {
		there, err := t.cells(n, part.Chunk)
		if err != nil {
			return 0, nil, err
		}
		merged := there.Merge(part.Cells)
		if part.Chunk.Tier < history.Days {
			r.points += uint64(len(merged) - len(there))
		}
		if err := t.putCells(n, part.Chunk, merged); err != nil {
			return 0, nil, err
		}
	}
	r.points -= min(uint64(len(cells)), r.points)
	return len(cells), parts, t.putCells(n, c, nil)
}

// expire drops the days of a chunk that are older than the retention.
func (t *table) expire(n name, r *series, c history.Chunk, k *history.Keep, now int64) (gone history.Cells, err error) {
	cells, err := t.cells(n, c)
	if err != nil {
		return nil, err
	}
	gone, stay := k.Expire(c, cells, now)
	r.expired += gone.Sum()
	return gone, t.putCells(n, c, stay)
}

// chunks are those of a tier that the partition holds, of any series, oldest first.
func (t *table) chunks(tier history.Tier) (found []history.Chunk, err error) {
	cursor := t.rows.Cursor()
	prefix := []byte{byte(t.p), chunkRow, byte(tier)}
	for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); {
		c, _, err := readChunkKey(key)
		if n := len(found); err == nil && n > 0 && c.Number <= found[n-1].Number {
			err = errors.New("rows are out of order") // and going on would go round for ever
		}
		if err != nil {
			return nil, t.damaged(key, err)
		}
		found = append(found, c)
		c.Number++
		key, _ = cursor.Seek(chunksKey(t.p, c))
	}
	return found, nil
}

// held are the chunks finer than a day that a series has.
func (t *table) held(n name) (found []history.Chunk, err error) {
	for tier := history.Minutes; tier < history.Days; tier++ {
		chunks, err := t.chunks(tier)
		if err != nil {
			return nil, err
		}
		for _, c := range chunks {
			if t.rows.Get(chunkKey(t.p, c, n)) != nil {
				found = append(found, c)
			}
		}
	}
	return found, nil
}

// each calls visit with the rows of a chunk until it returns false. Nothing may be written meanwhile.
func (t *table) each(c history.Chunk, visit func(n name, packed []byte) (more bool)) error {
	cursor, prefix := t.rows.Cursor(), chunksKey(t.p, c)
	for key, packed := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, packed = cursor.Next() {
		_, n, err := readChunkKey(key)
		if err != nil {
			return t.damaged(key, err)
		}
		if !visit(n, packed) {
			return nil
		}
	}
	return nil
}
