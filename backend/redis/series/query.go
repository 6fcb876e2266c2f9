package series

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weirproxy/weir/backend/history"
)

// readers is how many partitions are read at a time, and scanned how many series a server looks at with one command.
const (
	readers = 8
	scanned = 500
)

// Query is history.Store's. It holds no more than a few series at a time, but the names of those of some partitions.
func (s *Store) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	partitions := make(chan history.Partition)
	found := make(chan history.Series)
	exact := exactly(&q)
	var reading sync.WaitGroup
	for range readers {
		reading.Go(func() {
			for p := range partitions {
				if err := s.queryPartition(ctx, p, &q, exact, found); err != nil {
					cancel(err)
				}
			}
		})
	}
	go func() {
		defer close(found)
		defer reading.Wait()
		defer close(partitions)
		for p := range history.Partitions {
			if exact != nil && exact[history.Partition(p)] == nil {
				continue
			}
			select {
			case partitions <- history.Partition(p):
			case <-ctx.Done():
				return
			}
		}
	}()
	var err error
	for series := range found { // to its end, so that nothing goes on when this returns
		if err == nil {
			if err = yield(series); err != nil {
				cancel(err)
			}
		}
	}
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

// exactly are the series that a query can only be about, by partition; nil if it does not name them.
func exactly(q *history.Query) map[history.Partition][]history.ID {
	if q.Domain == nil || q.Path == nil || q.Value == nil {
		return nil
	}
	outcomes := q.Outcomes
	if len(outcomes) == 0 {
		for o := range history.Outcomes {
			outcomes = append(outcomes, history.Outcome(o))
		}
	}
	ids := make(map[history.Partition][]history.ID)
	for i, o := range outcomes {
		if !slices.Contains(outcomes[:i], o) {
			id := history.ID{Domain: *q.Domain, Path: *q.Path, Value: *q.Value, Outcome: o}
			ids[id.Partition()] = append(ids[id.Partition()], id)
		}
	}
	return ids
}

// queryPartition finds the series of a partition that a query is about.
func (s *Store) queryPartition(ctx context.Context, p history.Partition, q *history.Query,
	exact map[history.Partition][]history.ID, found chan<- history.Series) error {
	ids := exact[p]
	if exact == nil {
		var err error
		if ids, err = s.names(ctx, p, q); err != nil {
			return err
		}
	}
	for page := range slices.Chunk(ids, pageSize) {
		records, _, err := s.records(ctx, p, page)
		if err != nil {
			return err
		}
		for i := range records {
			ledger, err := s.load(ctx, p, &records[i], q.Needs)
			if err != nil {
				return err
			}
			select {
			case found <- ledger.Series(records[i].id, q.From, q.To):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// names are the series of a partition that a query is about; nil for all.
func (s *Store) names(ctx context.Context, p history.Partition, q *history.Query) ([]history.ID, error) {
	pattern := "*"
	if q != nil {
		pattern = glob(q)
	}
	seen := make(map[history.ID]bool) // a scan may name one twice
	var ids []history.ID
	for cursor, begun := "0", false; !begun || cursor != "0"; begun = true {
		answer, err := s.do(ctx, p, "zscan", dueKey(p), cursor, "match", pattern, "count", scanned)
		if err != nil {
			return nil, err
		}
		reply, _ := answer.([]any)
		if len(reply) != 2 {
			return nil, errUnreadable
		}
		members, _ := reply[1].([]any)
		for i := 0; i < len(members); i += 2 {
			id, err := parseName(text(members, i))
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, dueKey(p), err)
			}
			if !seen[id] && (q == nil || q.Matches(id)) {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		cursor = text(reply, 0)
	}
	return ids, nil
}

// glob is a pattern for the names of all series that a query is about, and maybe some others.
func glob(q *history.Query) string {
	var b strings.Builder
	for _, part := range [...]*string{q.Domain, q.Path, q.Value} {
		if part == nil {
			b.WriteString("*")
			continue
		}
		fmt.Fprintf(&b, "%d:", len(*part))
		for i := range len(*part) {
			if strings.IndexByte(`*?[]^-\`, (*part)[i]) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte((*part)[i])
		}
	}
	b.WriteString("?")
	return b.String()
}
