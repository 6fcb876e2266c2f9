package file

import (
	"bytes"
	"context"
	"errors"
	"iter"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// Query implements [history.Store]. All series of a partition are read in one transaction, which has ended before yield
// sees them.
func (s *Store) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	for p := range partitions(&q) {
		if err := ctx.Err(); err != nil {
			return s.wrap(err)
		}
		found, err := s.read(p, &q)
		if err != nil {
			return err
		}
		for _, f := range found {
			if err := yield(f.ledger.Series(f.id, q.From, q.To)); err != nil {
				return err
			}
		}
	}
	return nil
}

// partitions are those in which the query may find something.
func partitions(q *history.Query) iter.Seq[history.Partition] {
	var wanted [history.Partitions]bool
	for o := range history.Outcomes {
		if q.Domain != nil && q.Path != nil && q.Value != nil {
			id := history.ID{Domain: *q.Domain, Path: *q.Path, Value: *q.Value, Outcome: history.Outcome(o)}
			wanted[id.Partition()] = true
		}
	}
	return func(yield func(history.Partition) bool) {
		for p, is := range wanted {
			if (is || wanted == [history.Partitions]bool{}) && !yield(history.Partition(p)) {
				return
			}
		}
	}
}

// found is a series that a query asks for.
type found struct {
	id     history.ID
	ledger history.Ledger
}

func (s *Store) read(p history.Partition, q *history.Query) (all map[name]*found, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		t, err := s.table(tx, p)
		if err != nil {
			return err
		}
		if all, err = t.find(q); err != nil || len(all) == 0 {
			return err
		}
		return t.fill(all, q)
	})
	return all, err
}

// find is all series of the partition that a query asks for, without their chunks.
func (t *table) find(q *history.Query) (map[name]*found, error) {
	all := make(map[name]*found)
	prefix := []byte{byte(t.p), seriesRow}
	cursor := t.rows.Cursor()
	for key, row := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, row = cursor.Next() {
		r, err := decodeSeries(row)
		if err != nil || len(key) != len(prefix)+len(name{}) {
			return nil, t.damaged(key, errRow)
		}
		id, err := readID(r.id)
		if err != nil {
			return nil, t.damaged(key, err)
		}
		if q.Matches(id) {
			held := history.Ledger{Lifetime: r.lifetime, Expired: r.expired}
			all[name(key[len(prefix):])] = &found{id: id, ledger: held}
		}
	}
	return all, nil
}

// fill reads the chunks that a query needs.
func (t *table) fill(all map[name]*found, q *history.Query) error {
	for tier := range history.Tiers {
		chunks, err := t.chunks(history.Tier(tier))
		if err != nil {
			return err
		}
		for _, c := range chunks {
			if !q.Needs(c) {
				continue
			}
			var failed error
			err := t.each(c, func(n name, packed []byte) bool {
				f := all[n]
				if f == nil {
					return true
				}
				cells, err := c.Unpack(packed)
				if err != nil {
					failed = t.damaged(chunkKey(t.p, c, n), err)
				}
				f.ledger.Put(c, cells)
				return err == nil
			})
			if err := errors.Join(err, failed); err != nil {
				return err
			}
		}
	}
	return nil
}
