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

// series reads the row of a series. It reports whether there is one.
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
	for tier := history.Minutes; tier < history.Days; tier++ {
		all, err := s.chunks(tier)
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			if s.rows.Get(chunkKey(s.p, c, s.name)) != nil {
				found = append(found, c)
			}
		}
	}
	return found, nil
}

// chunks returns the chunks of a tier that the partition holds, of any series, oldest first.
func (t *table) chunks(tier history.Tier) (found []history.Chunk, err error) {
	cursor := t.rows.Cursor()
	prefix := []byte{byte(t.p), chunkRow, byte(tier)}
	for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); {
		c, _, err := readChunkKey(key)
		if n := len(found); err == nil && n > 0 && c.Number <= found[n-1].Number {
			err = errors.New("rows are out of order") // and going on would go round forever
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
