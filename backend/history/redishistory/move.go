package redishistory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/pipeline"
)

// maxAtOnce is how many chunks of a series one script changes, which takes a server about a quarter of a millisecond.
const maxAtOnce = 8

// due returns when a chunk is due. For a chunk of days whose first stored day is unknown, it assumes the first day of
// the year, so the result may be too early.
func (r *record) due(k *history.Retention, c history.Chunk) int64 {
	if firstDay, ok := r.firstDays[c]; ok {
		return k.Due(c, firstDay)
	}
	return k.Due(c, c.Start())
}

// dueChunks returns the due chunks to move next: the oldest ones of the finest tier, at most maxAtOnce.
func (r *record) dueChunks(k *history.Retention, now int64) (due []history.Chunk) {
	slices.SortFunc(r.chunks, func(a, b history.Chunk) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Number, b.Number))
	})
	for _, c := range r.chunks {
		if r.due(k, c) <= now && len(due) < maxAtOnce && (due == nil || c.Tier == due[0].Tier) {
			due = append(due, c)
		}
	}
	return due
}

// score returns the score of the series in the due set: when its first chunk is due.
func (r *record) score(k *history.Retention) string {
	if len(r.chunks) == 0 {
		return "+inf"
	}
	first := slices.MinFunc(r.chunks, func(a, b history.Chunk) int { return cmp.Compare(r.due(k, a), r.due(k, b)) })
	return strconv.FormatInt(r.due(k, first), 10)
}

// reread reads a record again. It returns the record's damage as an error.
func (s *Store) reread(ctx context.Context, r *record) error {
	found, _, err := s.readRecords(ctx, r.partition, []history.ID{r.id})
	if err != nil || len(found) == 0 {
		r.gone = err == nil
		return err
	}
	*r = found[0]
	r.firstDays = make(map[history.Chunk]int64)
	return r.damage
}

// errEarly means that a server's clock is behind the time for which a change was computed.
var errEarly = errors.New("the server's clock went back")

// change runs a script that changes a series. It fails with errStale or errEarly if the change was computed for another
// version or a later time.
func (s *Store) change(ctx context.Context, r *record, script *pipeline.Script, keys []string, args ...any) error {
	reply, err := s.run(ctx, r.partition, script, append([]string{dueKey(r.partition), r.key}, keys...), args...)
	switch item[string](reply, 0) {
	case "stale":
		return errStale
	case "early":
		return errEarly
	}
	return err
}

// downsampleSeries moves the chunks of a series that next returns, until it returns none, and stores when the series is
// due again. If the series has changed meanwhile, it reads it again.
func (s *Store) downsampleSeries(ctx context.Context, r *record, now int64, did *history.DownsampleResult,
	next func() []history.Chunk) error {
	r.firstDays = make(map[history.Chunk]int64)
	for stale := 0; stale < maxReads; {
		var err error
		chunks := next()
		if len(chunks) > 0 {
			err = s.downsampleChunks(ctx, r, chunks, now, did)
		} else if err = s.reschedule(ctx, r); err == nil {
			return nil
		}
		if errors.Is(err, errStale) {
			stale++
			err = s.reread(ctx, r)
		}
		if err != nil || r.gone {
			return err
		}
	}
	return r.changedTooOften()
}

// downsampleChunks moves chunks of a tier to the next one, or drops their expired days. It fails if the server's clock
// is before now.
func (s *Store) downsampleChunks(ctx context.Context, r *record, chunks []history.Chunk, now int64,
	did *history.DownsampleResult) error {
	touched := slices.Clone(chunks)
	for _, c := range chunks {
		for _, at := range [...]int64{c.Start(), c.End() - 1} {
			if c.Tier < history.Days && !slices.Contains(touched, history.ChunkOf(c.Tier+1, at)) {
				touched = append(touched, history.ChunkOf(c.Tier+1, at))
			}
		}
	}
	ledger, err := s.loadPieces(ctx, r, [][]history.Chunk{touched})
	if err = cmp.Or(err, r.damage); err != nil {
		return err
	}
	before := make(map[history.Chunk]history.Cells)
	for _, t := range touched {
		before[t] = slices.Clone(ledger.Chunks[t])
	}
	var moved history.DownsampleResult
	for _, c := range chunks {
		if err := ledger.Totals.Downsample(ledger, c, &s.c.Retention, now, &moved); err != nil {
			return err
		}
	}
	s.c.Step("downsample " + chunks[0].Tier.String())
	if err := s.save(ctx, r, touched, before, ledger, now); err != nil {
		return err
	}
	s.c.Step("downsampled " + chunks[0].Tier.String())
	did.Add(moved)
	return nil
}

// save changes the touched chunks of a series from the cells before to those of a ledger, by a script. It does nothing
// if they are equal.
func (s *Store) save(ctx context.Context, r *record, touched []history.Chunk,
	before map[history.Chunk]history.Cells, after *history.Ledger, now int64) error {
	changes := []hashChange{r.updateChunks(touched, after)}
	var keys []string
	for _, c := range touched {
		keys = append(keys, chunkKeys(r.key, c)...)
		changes = append(changes, hashChanges(c, before[c], after.Chunks[c])...)
	}
	if !slices.ContainsFunc(changes, func(h hashChange) bool { return len(h.Remove)+len(h.Set) > 0 }) {
		return nil
	}
	score := r.score(&s.c.Retention)
	if r.gone = len(r.chunks) == 0 && after.FullyExpired(r.id); r.gone {
		score = ""
	}
	err := s.change(ctx, r, s.scripts.change, keys, now, r.version, r.name, score, int64(after.Points)-int64(r.Points),
		asJSON(changes))
	if err != nil {
		return err
	}
	version, _ := strconv.ParseInt(r.version, 10, 64) // 0 if it is not a number
	r.version, r.Totals = strconv.FormatInt(version+1, 10), after.Totals
	return nil
}

// hashChange is a change of a hash of a series, for change.lua. Its lists must not be nil, as JSON would have null.
type hashChange struct {
	Fields        int      // number of fields that the hash must have; -1 if the version is check enough
	Remove        []string // fields to remove
	RemovedValues []string // the values that these must have, unless Fields is -1
	Set           []string // fields to set, each followed by its value
}

func newHashChange(fields int) hashChange {
	return hashChange{fields, []string{}, []string{}, []string{}}
}

// updateChunks updates the record's list of chunks to those of touched that a ledger has, and returns the change of the
// record's hash.
func (r *record) updateChunks(touched []history.Chunk, after *history.Ledger) hashChange {
	h := newHashChange(-1)
	for _, c := range touched {
		cells, has := after.Chunks[c]
		switch at := slices.Index(r.chunks, c); {
		case at >= 0 && !has:
			r.chunks, h.Remove = slices.Delete(r.chunks, at, at+1), append(h.Remove, chunkName(c))
		case at < 0 && has:
			r.chunks, h.Set = append(r.chunks, c), append(h.Set, chunkName(c), "")
		}
		if c.Tier == history.Days && has {
			r.firstDays[c] = c.At(cells[0].Index)
		}
	}
	if after.Expired != r.Expired {
		h.Set = append(h.Set, "expired", strconv.FormatUint(after.Expired, 10))
	}
	return h
}

// hashChanges returns the changes of the hashes of a chunk: its sums and, if it is coarser than a minute, its peaks.
func hashChanges(c history.Chunk, before, after history.Cells) (changes []hashChange) {
	values := []func(history.Cell) uint64{func(cell history.Cell) uint64 { return cell.Sum }}
	fields := len(before)
	if c.Tier > history.Minutes {
		values, fields = append(values, func(cell history.Cell) uint64 { return cell.Peak }), -1
	}
	for _, value := range values {
		h := newHashChange(fields)
		for _, cell := range before {
			if _, stays := after.Find(cell.Index); !stays {
				h.Remove = append(h.Remove, strconv.Itoa(cell.Index))
				h.RemovedValues = append(h.RemovedValues, strconv.FormatUint(value(cell), 10))
			}
		}
		for _, cell := range after {
			if i, was := before.Find(cell.Index); !was || value(before[i]) != value(cell) {
				h.Set = append(h.Set, strconv.Itoa(cell.Index), strconv.FormatUint(value(cell), 10))
			}
		}
		changes = append(changes, h)
	}
	return changes
}

// reschedule stores when a series is due next.
func (s *Store) reschedule(ctx context.Context, r *record) error {
	return s.change(ctx, r, s.scripts.due, nil, r.version, r.name, r.score(&s.c.Retention))
}

// downsampleEarly moves chunks of a series before they are due until it has at most MaxPoints points finer than a day.
func (s *Store) downsampleEarly(ctx context.Context, p history.Partition, id history.ID) error {
	found, now, err := s.readRecords(ctx, p, []history.ID{id})
	if err != nil || len(found) == 0 {
		return err
	}
	r := &found[0]
	if r.damage != nil {
		return r.damage
	}
	return s.downsampleSeries(ctx, r, now, new(history.DownsampleResult), func() []history.Chunk {
		if c, found := s.c.Retention.Early(r.chunks, now); found && r.Points > uint64(s.c.Retention.MaxPoints) {
			return []history.Chunk{c}
		}
		return nil
	})
}
