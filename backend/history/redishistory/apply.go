package redishistory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/pipeline"
)

// maxSends bounds how often a batch is sent because its keys are of another hour than the server's clock. The second
// time the keys are right, unless an hour has ended in between.
const maxSends = 3

// Apply implements [history.Store]. It sends a batch again if the answer is lost, which is harmless as batches have
// numbers.
func (s *Store) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	if s.c.ReadOnly {
		return history.ApplyResult{}, errReadOnly
	}
	if err := s.probe(ctx, p); err != nil {
		return history.ApplyResult{}, err
	}
	latestHour := int64(math.MaxInt64)
	for range maxSends {
		s.c.Step("apply")
		reply, err := s.send(ctx, p, &b, latestHour)
		if err != nil {
			return history.ApplyResult{}, err
		}
		s.c.Step("applied")
		if item[string](reply, 0) == "hour" {
			latestHour = item[int64](reply, 1)
			continue
		}
		r, overfull := parseResult(reply, &b)
		for _, id := range overfull {
			if err := s.downsampleEarly(ctx, p, id); err != nil { // the batch is counted nevertheless
				s.log.Warn("a series with too many points could not be downsampled early", "series", id, "error", err)
			}
		}
		return r, nil
	}
	return history.ApplyResult{}, fmt.Errorf("partition %d of the history: the clock of its server jumps from hour to "+
		"hour: set it right", p)
}

// send sends a batch. Minutes go into the chunk of their hour, or into that of latestHour, the server's present hour,
// if theirs is later. Each coarser bucket has one more key: its chunk's peaks.
func (s *Store) send(ctx context.Context, p history.Partition, b *history.Batch, latestHour int64) (
	pipeline.Reply, error) {
	keys := make([]string, 0, 2+2*len(b.Increments))
	keys = append(keys, writersKey(p), dueKey(p))
	increments, names := make([]any, 0, 3*len(b.Increments)), make([]any, 0, len(b.Increments))
	coarse, peaks := []any{}, []string{}
	for n, i := range b.Increments {
		name := seriesName(i.ID)
		series := seriesKey(p, name)
		c, index := history.ChunkOf(i.Tier, i.Minute*60), int64(0)
		if i.Tier == history.Minutes {
			c.Number = min(c.Number, latestHour)
			index = i.Minute - c.Number*60
		} else {
			index = int64(c.Index(i.Minute * 60))
			coarse = append(coarse, n+1, chunkName(c), s.c.Retention.Due(c, c.At(int(index))), strconv.FormatUint(i.Peak, 10))
			peaks = append(peaks, chunkKeys(series, c)[1])
		}
		keys = append(keys, series, chunkKey(series, c))
		increments = append(increments, c.Number, index, strconv.FormatUint(i.Hits, 10))
		names = append(names, name)
	}
	args := []any{b.Writer, b.Seq, b.After, int64(s.c.Retention.Ages[history.Minutes] / time.Second), s.c.Retention.MaxPoints,
		asJSON(increments), asJSON(coarse)}
	return s.run(ctx, p, s.scripts.apply, append(keys, peaks...), append(args, names...)...) // names need not be UTF-8, as JSON must
}

// parseResult parses the script's reply. overfull are the series that now have too many points.
func parseResult(reply pipeline.Reply, b *history.Batch) (r history.ApplyResult, overfull []history.ID) {
	hits := func(i int) uint64 {
		n, _ := strconv.ParseUint(item[string](reply, i), 10, 64) // the largest uint64 if it overflows
		return n
	}
	r = history.ApplyResult{Last: hits(1), Refused: hits(2)}
	switch item[string](reply, 0) {
	case "duplicate":
		r.Status = history.Duplicate
	case "gap":
		r.Status = history.Gap
	}
	full := item[[]any](reply, 3)
	for i := range full {
		at := item[int64](full, i) - 1
		valid := at >= 0 && at < int64(len(b.Increments))
		if valid && !slices.Contains(overfull, b.Increments[at].ID) {
			overfull = append(overfull, b.Increments[at].ID)
		}
	}
	return r, overfull
}
