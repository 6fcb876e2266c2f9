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

// match is a series that matches, or may match, a query.
type match struct {
	history.Ledger
	id      history.ID
	damage  error // Err of history.Series
	unnamed bool  // Unnamed of history.Series
}

// noteDamage notes an unreadable row of the series. The error does not wrap ErrDamaged, whose text asks to move the
// file away.
func (m *match) noteDamage(t *table, key []byte, err error) {
	if m.damage == nil {
		m.damage = fmt.Errorf("%s: row %x: %w", t.store, key, err)
	}
}

// find returns all series of the partition that match a query, without their chunks. It compares the key of an
// unreadable row with the series that the query names; if the query names none, the row matches.
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
			id, ok := named[hash]
			m.id, m.unnamed = id, !ok
		}
		if m.unnamed && len(named) == 0 || !m.unnamed && q.Matches(m.id) {
			found := m // so that only matches are allocated
			matches[hash] = &found
		}
	}
	return matches, nil
}

// fill reads the chunks that a query needs, except unreadable ones.
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
				_ = m.SetCells(c, cells) // a ledger returns no errors
			}
		}
	}
	return nil
}
