package redishistory

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
	exact := byPartition(q.IDs())
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

// byPartition sorts series; nil stays nil.
func byPartition(ids []history.ID) map[history.Partition][]history.ID {
	if ids == nil {
		return nil
	}
	sorted := make(map[history.Partition][]history.ID)
	for _, id := range ids {
		sorted[id.Partition()] = append(sorted[id.Partition()], id)
	}
	return sorted
}

// queryPartition finds the series of a partition that a query is about.
func (s *Store) queryPartition(ctx context.Context, p history.Partition, q *history.Query,
	exact map[history.Partition][]history.ID, found chan<- history.Series) error {
	give := func(one history.Series) error {
		select {
		case found <- one:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	ids := exact[p]
	if exact == nil {
		named, damage, err := s.names(ctx, p, q)
		if err != nil {
			return err
		}
		ids = named
		for _, d := range damage {
			if err := give(history.Series{Err: d, Unnamed: true}); err != nil {
				return err
			}
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
			one := ledger.Series(records[i].id, q.From, q.To)
			one.Err = records[i].damage
			if err := give(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// names are the series of a partition that a query is about, nil for all, and what in the set of those due is no name of
// a series, or why there is no such set.
func (s *Store) names(ctx context.Context, p history.Partition, q *history.Query) (
	ids []history.ID, damage []error, err error) {
	pattern := "*"
	if q != nil {
		pattern = glob(q)
	}
	seen := make(map[string]bool) // a scan may name one twice
	for cursor, begun := "0", false; !begun || cursor != "0"; begun = true {
		answer, err := s.do(ctx, p, "zscan", dueKey(p), cursor, "match", pattern, "count", scanned)
		if err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
			return nil, []error{fmt.Errorf("%w: %s, the names of a partition's series: %w", ErrDamaged, dueKey(p), err)}, nil
		}
		if err != nil {
			return nil, nil, err
		}
		reply, _ := answer.([]any)
		if len(reply) != 2 {
			return nil, nil, errUnreadable
		}
		members, _ := reply[1].([]any)
		for i := 0; i < len(members); i += 2 {
			name := text(members, i)
			if seen[name] {
				continue
			}
			seen[name] = true
			id, err := parseName(name)
			if err != nil {
				damage = append(damage, fmt.Errorf("%w: %s: %w", ErrDamaged, dueKey(p), err))
			} else if q == nil || q.Matches(id) {
				ids = append(ids, id)
			}
		}
		cursor = text(reply, 0)
	}
	return ids, damage, nil
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
