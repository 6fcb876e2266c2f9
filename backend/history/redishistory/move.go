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

// maxTogether is how many chunks of a series move at once: they take a server about a quarter of a millisecond.
const maxTogether = 8

// due returns when a chunk is due, or an earlier time: for days whose first is not known, that of the first of the
// year.
func (r *record) due(k *history.Retention, c history.Chunk) int64 {
	if firstDay, known := r.firstDays[c]; known {
		return k.Due(c, firstDay)
	}
	return k.Due(c, c.Start())
}

// next returns the chunks that are moved or looked at next: of those due the finest and of these the oldest.
func (r *record) next(k *history.Retention, now int64) (due []history.Chunk) {
	slices.SortFunc(r.chunks, func(a, b history.Chunk) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Number, b.Number))
	})
	for _, c := range r.chunks {
		if r.due(k, c) <= now && len(due) < maxTogether && (due == nil || c.Tier == due[0].Tier) {
			due = append(due, c)
		}
	}
	return due
}

// score is when the first chunk is due, as the due set has it.
func (r *record) score(k *history.Retention) string {
	if len(r.chunks) == 0 {
		return "+inf"
	}
	first := slices.MinFunc(r.chunks, func(a, b history.Chunk) int { return cmp.Compare(r.due(k, a), r.due(k, b)) })
	return strconv.FormatInt(r.due(k, first), 10)
}

// reread reads a record again. It returns its damage as an error.
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

// errEarly means that a server's clock is behind the one that a move was planned by.
var errEarly = errors.New("the server's clock went back")

// change runs a script that changes a series, unless the series or the clock is another than the change was planned by.
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
// due again. It reads the series again whenever that has changed meanwhile.
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

// downsampleChunks moves chunks of a tier to the next, or drops their days that are older than the retention, once the
// server's clock has come to now.
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

// save has a script change chunks of a series from what they held to what a ledger holds, if that is something else.
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
	version, _ := strconv.ParseInt(r.version, 10, 64) // what is no number begins anew
	r.version, r.Totals = strconv.FormatInt(version+1, 10), after.Totals
	return nil
}

// hashChange is how a hash of a series changes, for change.lua. None of its lists is nil, which JSON has no list for.
type hashChange struct {
	Fields        int      // how many the hash must have; -1 if the version says enough
	Remove        []string // fields
	RemovedValues []string // what these must hold, if Fields is not -1
	Set           []string // fields, each with its value
}

func newHashChange(fields int) hashChange {
	return hashChange{fields, []string{}, []string{}, []string{}}
}

// updateChunks brings the record's list of chunks to what a ledger holds of those touched, and returns how the series'
// own hash changes.
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

// hashChanges returns how the hashes of a chunk change: its sums and, where it is coarser than a minute, its peaks.
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

// reschedule stores when a series is due next that needs nothing now.
func (s *Store) reschedule(ctx context.Context, r *record) error {
	return s.change(ctx, r, s.scripts.due, nil, r.version, r.name, r.score(&s.c.Retention))
}

// downsampleEarly rolls a series early until it holds no more points finer than a day than it may.
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
