package redishistory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/weirproxy/weir/backend/history"
)

// maxReaders bounds the partitions that are read at the same time, and scanCount the entries that a server visits in
// one scanning command.
const (
	maxReaders = 8
	scanCount  = 500
)

// Query implements [history.Store]. It has a few series in memory at a time, and the names of all series of up to
// maxReaders partitions.
func (s *Store) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(maxReaders)
	var mu sync.Mutex
	var yieldErr error
	for _, p := range q.Partitions() {
		reading.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return s.queryPartition(ctx, p, &q, func(series history.Series) error {
				mu.Lock()
				defer mu.Unlock()
				if yieldErr == nil {
					yieldErr = yield(series)
				}
				return yieldErr
			})
		})
	}
	return reading.Wait()
}

// queryPartition yields the series of a partition that match a query.
func (s *Store) queryPartition(ctx context.Context, p history.Partition, q *history.Query, yield func(history.Series) error) error {
	ids := q.IDs()
	if ids == nil {
		var damage []error
		var err error
		if ids, damage, err = s.scanNames(ctx, p, q, math.Inf(1)); err != nil {
			return err
		}
		for _, d := range damage {
			if err := yield(history.Series{Err: d, Unnamed: true}); err != nil {
				return err
			}
		}
	}
	ids = slices.DeleteFunc(ids, func(id history.ID) bool { return id.Partition() != p })
	for page := range slices.Chunk(ids, pageSize) {
		records, _, err := s.readRecords(ctx, p, page)
		if err != nil {
			return err
		}
		for i := range records {
			ledger, err := s.load(ctx, &records[i], q.Needs)
			if err != nil {
				return err
			}
			series := ledger.Series(records[i].id, q.From, q.To)
			series.Err = records[i].damage
			if err := yield(series); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanNames returns the series of a partition that match a query and are due until a moment, from the due set. damage
// has an error for each member of the set that is not a name of a series, or the error of a set that cannot be read.
func (s *Store) scanNames(ctx context.Context, p history.Partition, q *history.Query, until float64) (
	ids []history.ID, damage []error, err error) {
	seen := make(map[string]bool) // a scan may return a name twice
	err = s.scan(ctx, p, func(name, score string) {
		if at, err := strconv.ParseFloat(score, 64); seen[name] || err == nil && at > until {
			return
		}
		seen[name] = true
		id, err := parseName(p, name)
		switch {
		case err != nil:
			damage = append(damage, err)
		case q.Matches(id):
			ids = append(ids, id)
		}
	}, "zscan", dueKey(p), "match", glob(q))
	if err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
		return nil, []error{fmt.Errorf("%w: %s, the names of a partition's series: %w", ErrDamaged, dueKey(p), err)}, nil
	}
	return ids, damage, err
}

// scan calls visit for each entry of a key that a scanning command returns: a field and its value, or a member and its
// score. It may visit an entry twice.
func (s *Store) scan(ctx context.Context, p history.Partition, visit func(name, value string),
	command, key string, options ...any) error {
	from, err := s.route(ctx, p)
	for cursor := "0"; err == nil; {
		answer, err := s.command(ctx, p, append([]any{command, key, cursor, "count", scanCount}, options...)...)
		if err != nil {
			return err
		}
		if at, _ := s.route(ctx, p); at != from { // a cursor is valid on one node only
			from, cursor = at, "0"
			continue
		}
		reply, _ := answer.([]any)
		if len(reply) != 2 {
			return errUnreadable
		}
		items, _ := reply[1].([]any)
		for i := 0; i+1 < len(items); i += 2 {
			visit(item[string](items, i), item[string](items, i+1))
		}
		if cursor = item[string](reply, 0); cursor == "0" {
			return nil
		}
	}
	return err
}

var escape = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `-`, `\-`, `\`, `\\`)

// glob returns a pattern that matches the names of all series of a query, and maybe of some others.
func glob(q *history.Query) string {
	var b strings.Builder
	for _, part := range [...]*string{q.Domain, q.Path, q.Value} {
		if part == nil {
			b.WriteString("*")
			continue
		}
		fmt.Fprintf(&b, "%d:%s", len(*part), escape.Replace(*part))
	}
	return b.String() + "?"
}
