package filehistory

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// pendingBatch is a batch that waits for the write lock. The holder of the lock applies all waiting batches in one
// transaction, as a transaction mostly waits for the disk.
type pendingBatch struct {
	p      history.Partition
	batch  history.Batch
	result history.ApplyResult
	err    error
}

var (
	errInterrupted = errors.New("interrupted before the batch was written")
	errNothing     = errors.New("nothing to write") // ends a transaction without a commit
)

// Apply implements [history.Store]. It may apply a batch after its caller has left.
func (s *Store) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	s.c.Step("apply: before")
	pending := &pendingBatch{p: p, batch: b, err: s.wrap(errInterrupted)}
	s.mu.Lock()
	s.waiting = append(s.waiting, pending)
	s.mu.Unlock()
	err := s.withLock(ctx, func() error {
		s.applyWaiting()
		return nil
	})
	if err != nil {
		return history.ApplyResult{}, err
	}
	s.c.Step("apply: after")
	return pending.result, pending.err
}

// applyWaiting applies all waiting batches that the last holder of the lock has not applied: in one transaction or, if
// that fails, each in a separate one, so that a damaged partition does not block others.
func (s *Store) applyWaiting() {
	s.mu.Lock()
	batches := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	if len(batches) == 0 {
		return
	}
	err := s.applyTogether(batches)
	for i, a := range batches {
		if a.err = err; err != nil && len(batches) > 1 {
			a.err = s.applyTogether(batches[i : i+1])
		}
		if a.err != nil {
			a.result = history.ApplyResult{}
		}
	}
}

func (s *Store) applyTogether(batches []*pendingBatch) error {
	err := s.update(func(tx *bolt.Tx) error {
		changed := false
		for _, a := range batches {
			t, err := s.table(tx, a.p)
			if err == nil {
				a.result, err = s.count(t, &a.batch)
			}
			if err != nil {
				return err
			}
			changed = changed || a.result.Status == history.Applied
		}
		if !changed {
			return errNothing
		}
		s.c.Step("apply: counted")
		return nil
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// count counts a batch in its partition, if it follows its writer's position.
func (s *Store) count(t *table, b *history.Batch) (history.ApplyResult, error) {
	pos, _, err := get(t, positionKey(t.p, b.Writer), decodePosition)
	r := history.ApplyResult{Status: b.Status(pos.last), Last: pos.last, Refused: pos.refused}
	if err != nil || r.Status != history.Applied {
		return r, err
	}
	r.Refused = 0
	now, in := s.c.Now().Unix(), &seriesChunks{table: t}
	for i := range b.Increments {
		if err := s.add(in, &b.Increments[i], now, &r); err != nil {
			return r, err
		}
	}
	r.Last = b.Seq
	return r, t.rows.Put(positionKey(t.p, b.Writer), position{b.Seq, now, r.Refused}.encode())
}

// add counts one increment.
func (s *Store) add(in *seriesChunks, i *history.Increment, now int64, r *history.ApplyResult) error {
	in.hash = hashOf(i.ID)
	key := seriesKey(in.p, in.hash)
	row, found, err := get(in.table, key, decodeSeries)
	if err != nil {
		return err
	}
	if !found {
		row.id = appendID(nil, i.ID)
	}
	if err := row.Apply(in, i, &s.c.Retention, now, r); err != nil {
		return err
	}
	return in.rows.Put(key, row.encode())
}
