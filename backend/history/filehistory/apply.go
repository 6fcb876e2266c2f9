package filehistory

import (
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/weirproxy/weir/backend/history"
)

// pendingBatch waits to be applied. Whoever has the turn applies all that wait, because most of what a transaction costs
// is the wait for the disk. The last three fields belong to whoever has the turn.
type pendingBatch struct {
	p      history.Partition
	batch  history.Batch
	done   bool
	result history.ApplyResult
	err    error
}

// maxPending is how many batches are applied in one transaction.
const maxPending = 64

var (
	errInterrupted = errors.New("interrupted before the batch was written")
	errNothing     = errors.New("nothing to write") // ends a transaction without a commit
)

// Apply implements [history.Store]. A batch whose caller has gone may still be applied.
func (s *Store) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	if err := b.Check(p); err != nil {
		return history.ApplyResult{}, err
	}
	s.step("apply: before")
	own := &pendingBatch{p: p, batch: b}
	s.mu.Lock()
	s.waiting = append(s.waiting, own)
	s.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return history.ApplyResult{}, s.wrap(ctx.Err())
	}
	s.applyUntil(own)
	s.step("apply: after")
	return own.result, own.err
}

// applyUntil applies what waits, in its order, until own has been, and passes the turn on.
func (s *Store) applyUntil(own *pendingBatch) {
	defer func() { <-s.turn }()
	for !own.done {
		s.mu.Lock()
		n := min(len(s.waiting), maxPending)
		together := s.waiting[:n:n]
		s.waiting = s.waiting[n:]
		s.mu.Unlock()
		s.applyAll(together)
	}
}

// applyAll applies batches in one transaction or, if that fails, each in its own: a damaged partition keeps no other out.
func (s *Store) applyAll(together []*pendingBatch) {
	for _, a := range together {
		a.done, a.err = true, s.wrap(errInterrupted) // unless it comes to its end
	}
	err := s.applyTogether(together)
	for _, a := range together {
		own := err
		if err != nil && len(together) > 1 {
			own = s.applyTogether([]*pendingBatch{a})
		}
		if a.err = own; own != nil {
			a.result = history.ApplyResult{}
		}
	}
}

func (s *Store) applyTogether(together []*pendingBatch) error {
	err := s.commit(func(tx *bolt.Tx) error {
		changed := false
		for _, a := range together {
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
		s.step("apply: counted")
		return nil
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// count counts a batch in its partition, unless its writer's position is beyond it already, or too far behind.
func (s *Store) count(t *table, b *history.Batch) (history.ApplyResult, error) {
	was, _, err := get(t, positionKey(t.p, b.Writer), decodePosition)
	r := history.ApplyResult{Status: b.Status(was.last), Last: was.last, Refused: was.refused}
	if err != nil || r.Status != history.Applied {
		return r, err
	}
	r.Refused = 0
	now, in := s.now().Unix(), &seriesChunks{table: t}
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
	in.name = nameOf(i.ID)
	key := seriesKey(in.p, in.name)
	row, found, err := get(in.table, key, decodeSeries)
	if err != nil {
		return err
	}
	if !found {
		row.id = appendID(nil, i.ID)
	}
	if err := row.Apply(in, i, &s.keep, now, r, func() { s.step("apply: rolled early") }); err != nil {
		return err
	}
	return in.rows.Put(key, row.encode())
}
