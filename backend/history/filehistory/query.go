package filehistory

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// Query implements [history.Store]. A partition is read in one transaction, which has ended before yield is called.
func (s *Store) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	for _, p := range q.Partitions() {
		if err := ctx.Err(); err != nil {
			return s.wrap(err)
		}
		var all map[name]*found
		err := s.view(func(tx *bolt.Tx) error {
			t, err := s.table(tx, p)
			if err != nil {
				return err
			}
			if all, err = t.find(&q); err != nil || len(all) == 0 {
				return err
			}
			return t.fill(all, &q)
		})
		if err != nil {
			return err
		}
		for _, f := range all {
			one := f.Series(f.id, q.From, q.To)
			one.Err, one.Unnamed = f.damage, f.unnamed
			if err := yield(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// found is a series that a query asks for, or may ask for.
type found struct {
	history.Ledger
	id      history.ID
	damage  error // why some of it cannot be read: the first reason
	unnamed bool  // as in history.Series
}

// damaged notes a row of the series that cannot be read. Unlike one in the way of a batch it is no reason to do without
// the file.
func (f *found) damaged(t *table, key []byte, err error) {
	if f.damage == nil {
		f.damage = fmt.Errorf("%s: row %x: %w", t.store, key, err)
	}
}

// find returns all series of the partition that a query asks for, without their chunks. The key of one whose row cannot
// be read tells whether the query names it; where the query names none, it may be any.
func (t *table) find(q *history.Query) (map[name]*found, error) {
	named := make(map[name]history.ID)
	for _, id := range q.IDs() {
		named[nameOf(id)] = id
	}
	all := make(map[name]*found)
	prefix := []byte{byte(t.p), seriesRow}
	for key, row := range t.under(prefix) {
		if len(key) != len(prefix)+len(name{}) {
			return nil, t.damaged(key, errRow)
		}
		n := name(key[len(prefix):])
		r, err := decodeSeries(row)
		f := found{Ledger: history.Ledger{Totals: r.Totals}}
		if err == nil {
			f.id, err = readID(r.id)
		}
		if err != nil {
			f.damaged(t, key, err)
			id, known := named[n]
			f.id, f.unnamed = id, !known
		}
		if f.unnamed && len(named) == 0 || !f.unnamed && q.Matches(f.id) {
			kept := f // so that only what is kept is allocated
			all[n] = &kept
		}
	}
	return all, nil
}

// fill reads the chunks that a query needs, as far as they can be read.
func (t *table) fill(all map[name]*found, q *history.Query) error {
	chunks, err := t.chunks(history.Minutes, history.Days)
	if err != nil {
		return err
	}
	for _, c := range chunks {
		if !q.Needs(c) {
			continue
		}
		for key, packed := range t.under(chunksKey(t.p, c)) {
			_, n, err := readChunkKey(key)
			if err != nil {
				return t.damaged(key, err)
			}
			if f := all[n]; f != nil {
				cells, err := unpack(c, packed)
				if err != nil {
					f.damaged(t, key, err)
				}
				_ = f.SetCells(c, cells) // of a ledger, it cannot fail
			}
		}
	}
	return nil
}
