package filehistory

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// Query implements [history.Store]. It reads each partition in one transaction, and calls yield afterwards.
func (s *Store) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	for _, p := range q.Partitions() {
		if err := ctx.Err(); err != nil {
			return s.wrap(err)
		}
		var matches map[seriesHash]*match
		err := s.view(func(tx *bolt.Tx) error {
			t, err := s.table(tx, p)
			if err != nil {
				return err
			}
			if matches, err = t.find(&q); err != nil || len(matches) == 0 {
				return err
			}
			return t.fill(matches, &q)
		})
		if err != nil {
			return err
		}
		for _, m := range matches {
			series := m.Series(m.id, q.From, q.To)
			series.Err, series.Unnamed = m.damage, m.unnamed
			if err := yield(series); err != nil {
				return err
			}
		}
	}
	return nil
}

// match is a series that matches a query, or may match it.
type match struct {
	history.Ledger
	id      history.ID
	damage  error // the first reason why some of it cannot be read
	unnamed bool  // as in history.Series
}

// noteDamage notes a row of the series that cannot be read. Its error does not ask to move the file away, as a row that
// blocks a batch does.
func (m *match) noteDamage(t *table, key []byte, err error) {
	if m.damage == nil {
		m.damage = fmt.Errorf("%s: row %x: %w", t.store, key, err)
	}
}

// find returns all series of the partition that match a query, without their chunks. A series whose row cannot be read is
// compared by its key with the series that the query names; if the query names none, it matches.
func (t *table) find(q *history.Query) (map[seriesHash]*match, error) {
	named := make(map[seriesHash]history.ID)
	for _, id := range q.IDs() {
		named[hashOf(id)] = id
	}
	matches := make(map[seriesHash]*match)
	prefix := []byte{byte(t.p), seriesRow}
	for key, row := range t.withPrefix(prefix) {
		if len(key) != len(prefix)+len(seriesHash{}) {
			return nil, t.damaged(key, errRow)
		}
		hash := seriesHash(key[len(prefix):])
		r, err := decodeSeries(row)
		m := match{Ledger: history.Ledger{Totals: r.Totals}}
		if err == nil {
			m.id, err = readID(r.id)
		}
		if err != nil {
			m.noteDamage(t, key, err)
			id, known := named[hash]
			m.id, m.unnamed = id, !known
		}
		if m.unnamed && len(named) == 0 || !m.unnamed && q.Matches(m.id) {
			kept := m // so that only matches are allocated
			matches[hash] = &kept
		}
	}
	return matches, nil
}

// fill reads the chunks that a query needs, except those that cannot be read.
func (t *table) fill(matches map[seriesHash]*match, q *history.Query) error {
	chunks, err := t.chunks(history.Minutes, history.Days)
	if err != nil {
		return err
	}
	for _, c := range chunks {
		if !q.Needs(c) {
			continue
		}
		for key, packed := range t.withPrefix(chunksKey(t.p, c)) {
			_, hash, err := readChunkKey(key)
			if err != nil {
				return t.damaged(key, err)
			}
			if m := matches[hash]; m != nil {
				cells, err := unpack(c, packed)
				if err != nil {
					m.noteDamage(t, key, err)
				}
				_ = m.SetCells(c, cells) // for a ledger it cannot fail
			}
		}
	}
	return nil
}
