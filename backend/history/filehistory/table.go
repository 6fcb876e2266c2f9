package filehistory

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// table is one partition in a transaction.
type table struct {
	p     history.Partition
	rows  *bolt.Bucket
	store string // its name, for messages
}

func (s *Store) table(tx *bolt.Tx, p history.Partition) (*table, error) {
	rows := tx.Bucket(rowsBucket)
	if rows == nil {
		return nil, fmt.Errorf("%s %w (it has no rows)", s.name, ErrDamaged)
	}
	return &table{p: p, rows: rows, store: s.name}, nil
}

// damaged returns an error that names a row which cannot be read.
func (t *table) damaged(key []byte, err error) error {
	return fmt.Errorf("%s %w (row %x: %w)", t.store, ErrDamaged, key, err)
}

// get reads a row. It reports whether there is one.
func get[T any](t *table, key []byte, decode func(row []byte) (T, error)) (value T, found bool, err error) {
	row := t.rows.Get(key)
	if row == nil {
		return value, false, nil
	}
	if value, err = decode(row); err != nil {
		return value, false, t.damaged(key, err)
	}
	return value, true, nil
}

// under returns the rows whose keys begin with a prefix, in order. Nothing may be written meanwhile.
func (t *table) under(prefix []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, row []byte) bool) {
		cursor := t.rows.Cursor()
		key, row := cursor.Seek(prefix)
		for bytes.HasPrefix(key, prefix) && yield(key, row) {
			key, row = cursor.Next()
		}
	}
}

// seriesChunks implements [history.Chunks] with the rows of a series.
type seriesChunks struct {
	*table
	name name
}

func (s *seriesChunks) Cells(c history.Chunk) (history.Cells, error) {
	key := chunkKey(s.p, c, s.name)
	cells, err := c.Unpack(s.rows.Get(key))
	if err != nil {
		return nil, s.damaged(key, err)
	}
	return cells, nil
}

func (s *seriesChunks) SetCells(c history.Chunk, cells history.Cells) error {
	key := chunkKey(s.p, c, s.name)
	if len(cells) == 0 {
		return s.rows.Delete(key)
	}
	return s.rows.Put(key, c.Tier.Pack(nil, cells))
}

func (s *seriesChunks) Fine() (found []history.Chunk, err error) {
	found, err = s.chunks(history.Minutes, history.Hours)
	return slices.DeleteFunc(found, func(c history.Chunk) bool { return s.rows.Get(chunkKey(s.p, c, s.name)) == nil }), err
}

// chunks returns the chunks of some tiers that the partition holds, of any series, the finest and oldest first.
func (t *table) chunks(finest, coarsest history.Tier) (found []history.Chunk, err error) {
	cursor, end := t.rows.Cursor(), []byte{byte(t.p), chunkRow, byte(coarsest) + 1}
	key, _ := cursor.Seek([]byte{byte(t.p), chunkRow, byte(finest)})
	for last := []byte(nil); key != nil && bytes.Compare(key, end) < 0; {
		c, _, err := readChunkKey(key)
		if err == nil && bytes.Compare(key, last) <= 0 {
			err = errors.New("rows are out of order") // and going on would go round forever
		}
		if err != nil {
			return nil, t.damaged(key, err)
		}
		found, last = append(found, c), key
		key, _ = cursor.Seek(chunksKey(t.p, history.Chunk{Tier: c.Tier, Number: c.Number + 1}))
	}
	return found, nil
}
