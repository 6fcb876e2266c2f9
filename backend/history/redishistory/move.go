package redishistory

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis/pipeline"
)

// maxTogether is how many chunks of a series move at once: they take a server about a quarter of a millisecond.
const maxTogether = 8

// never is when a series is due of which nothing is left.
const never = math.MaxInt64

// visit is what the job knows of a series that it is working on.
type visit struct {
	*record
	ages  *history.Keep
	exact map[history.Chunk]int64 // when a chunk of days is due whose first day is known
}

func newVisit(r *record, ages *history.Keep) *visit {
	return &visit{record: r, ages: ages, exact: make(map[history.Chunk]int64)}
}

// due is when a chunk is due, or a little earlier: of days, as if the year's first were among them.
func (v *visit) due(c history.Chunk) int64 {
	if at, known := v.exact[c]; known {
		return at
	}
	return v.ages.Due(c, c.Start())
}

// next are the chunks that are moved or looked at next: of those due the finest and of these the oldest.
func (v *visit) next(now int64) (due []history.Chunk) {
	slices.SortFunc(v.chunks, func(a, b history.Chunk) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Number, b.Number))
	})
	for _, c := range v.chunks {
		if v.due(c) <= now && len(due) < maxTogether && (due == nil || c.Tier == due[0].Tier) {
			due = append(due, c)
		}
	}
	return due
}

// score is when the first of some chunks is due, as the set of those due has it.
func (v *visit) score(chunks []history.Chunk) string {
	first := int64(never)
	for _, c := range chunks {
		first = min(first, v.due(c))
	}
	if first == never {
		return "+inf"
	}
	return strconv.FormatInt(first, 10)
}

// reread brings a record up to date. One that is damaged is an error.
func (s *Store) reread(ctx context.Context, p history.Partition, r *record) error {
	found, _, err := s.records(ctx, p, []history.ID{r.id})
	if err != nil {
		return err
	}
	*r = newRecord(p, r.id)
	if len(found) > 0 {
		*r = found[0]
	}
	return r.damage
}

// errEarly means that a server's clock is behind the one that a move was planned by.
var errEarly = errors.New("the server's clock went back")

// change has a script change a series as it was planned. The reply is nil if the series' list of chunks is another one
// by now.
func (s *Store) change(ctx context.Context, p history.Partition, script *pipeline.Script, keys []string, args ...any) (
	pipeline.Reply, error) {
	reply, err := s.run(ctx, p, script, keys, args...)
	switch {
	case err != nil || item[string](reply, 0) == "stale":
		return nil, err
	case item[string](reply, 0) == "early":
		return nil, errEarly
	}
	return reply, nil
}

// rollChunks moves chunks of a tier to the next, or drops their days that are older than the retention: now in any case,
// or only once the server's clock has come to a second. It is false if the series has changed meanwhile.
func (s *Store) rollChunks(ctx context.Context, p history.Partition, v *visit, chunks []history.Chunk, from, now int64,
	did *history.RollResult) (bool, error) {
	touched := slices.Clone(chunks)
	for _, c := range chunks {
		for _, at := range [...]int64{c.Start(), c.End() - 1} {
			if c.Tier < history.Days && !slices.Contains(touched, history.ChunkOf(c.Tier+1, at)) {
				touched = append(touched, history.ChunkOf(c.Tier+1, at))
			}
		}
	}
	ledger, err := s.loadPieces(ctx, p, v.record, [][]history.Chunk{touched})
	if err = cmp.Or(err, v.damage); err != nil || ledger == nil {
		return false, err
	}
	ledger.Points = uint64(max(v.points, 0))
	before := make(map[history.Chunk]history.Cells)
	for _, t := range touched {
		before[t] = slices.Clone(ledger.Chunks[t])
	}
	var rolled history.RollResult
	for _, c := range chunks {
		if err := ledger.Totals.Roll(ledger, c, v.ages, now, &rolled); err != nil {
			return false, err
		}
	}
	if rolled.Chunks != [history.Tiers]uint64{} {
		rolled.Series = 1
	}
	s.step("roll " + chunks[0].Tier.String())
	if done, err := s.save(ctx, p, v, touched, before, ledger, from); !done {
		return false, err
	}
	s.step("rolled " + chunks[0].Tier.String())
	did.Add(rolled)
	return true, nil
}

// save has a script change chunks of a series from what they held to what a ledger holds, if that is something else.
func (s *Store) save(ctx context.Context, p history.Partition, v *visit, touched []history.Chunk,
	before map[history.Chunk]history.Cells, after *history.Ledger, from int64) (bool, error) {
	chunks := slices.Clone(v.chunks)
	var keys, gone, come []string
	var changes packed
	changed := false
	for _, c := range touched {
		cells, has := after.Chunks[c]
		switch at := slices.Index(chunks, c); {
		case at >= 0 && !has:
			chunks, gone = slices.Delete(chunks, at, at+1), append(gone, chunkName(c))
		case at < 0 && has:
			chunks, come = append(chunks, c), append(come, chunkName(c))
		}
		if c.Tier == history.Days && has {
			v.exact[c] = v.ages.Due(c, c.At(cells[0].Place))
		}
		changed = changed || !has || !slices.Equal(before[c], cells)
		keys = append(keys, keysOf(v.key, c)...)
		changes = append(changes, changesOf(c, before[c], cells)...)
	}
	if !changed {
		return true, nil
	}
	expired := ""
	if after.Expired != v.expired {
		expired = strconv.FormatUint(after.Expired, 10)
	}
	reply, err := s.change(ctx, p, s.scripts.change, append([]string{dueKey(p), v.key}, keys...), from, v.version, v.name,
		v.score(chunks), int64(after.Points)-int64(v.points), expired,
		[]byte(append(newPacked(2), append(texts(gone), texts(come)...)...)), []byte(append(newPacked(len(keys)), changes...)))
	if reply == nil {
		return false, err
	}
	version, _ := strconv.ParseInt(v.version, 10, 64) // what is no number begins anew
	v.version, v.chunks, v.points = strconv.FormatInt(version+1, 10), chunks, int(after.Points)
	return true, nil
}

// changesOf returns what becomes of the hashes of a chunk, for the script: of its sums and, where it is coarser than a
// minute, of its peaks.
func changesOf(c history.Chunk, before, after history.Cells) (all packed) {
	values := []func(history.Cell) uint64{func(cell history.Cell) uint64 { return cell.Sum }}
	holds := int64(len(before))
	if c.Tier > history.Minutes {
		values, holds = append(values, func(cell history.Cell) uint64 { return cell.Peak }), -1
	}
	byPlace := func(cell history.Cell, place int) int { return cmp.Compare(cell.Place, place) }
	for _, value := range values {
		var going, held, set []string
		for _, cell := range before {
			if _, stays := slices.BinarySearchFunc(after, cell.Place, byPlace); !stays {
				going, held = append(going, strconv.Itoa(cell.Place)), append(held, strconv.FormatUint(value(cell), 10))
			}
		}
		for _, cell := range after {
			if i, was := slices.BinarySearchFunc(before, cell.Place, byPlace); !was || value(before[i]) != value(cell) {
				set = append(set, strconv.Itoa(cell.Place), strconv.FormatUint(value(cell), 10))
			}
		}
		all = append(all, append(append(append(newPacked(4).number(holds), texts(going)...), texts(held)...), texts(set)...)...)
	}
	return all
}

// reschedule stores when a series is due next that needs nothing now. It is not done if its list of chunks is another
// one by now.
func (r *roller) reschedule(ctx context.Context, p history.Partition, v *visit) (bool, error) {
	reply, err := r.change(ctx, p, r.scripts.due, []string{dueKey(p), v.key}, v.version, v.name, v.score(v.chunks))
	return reply != nil, err
}

// shrink rolls a series early until it holds no more points finer than a day than it may.
func (s *Store) shrink(ctx context.Context, p history.Partition, id history.ID) error {
	for tries := 0; tries < maxReads; {
		found, now, err := s.records(ctx, p, []history.ID{id})
		if err == nil && len(found) > 0 {
			err = found[0].damage
		}
		if err != nil || len(found) == 0 || found[0].points <= s.keep.MaxPoints {
			return err
		}
		v := newVisit(&found[0], &s.keep)
		c, any := s.keep.Early(v.chunks, now)
		if !any {
			return nil
		}
		moved, err := s.rollChunks(ctx, p, v, []history.Chunk{c}, 0, now, new(history.RollResult))
		if err != nil {
			return err
		}
		if !moved {
			tries++
		}
	}
	return unsteady(p, id)
}

// forget forgets the positions of writers that have not been heard of for long.
func (r *roller) forget(ctx context.Context, p history.Partition, now int64) error {
	const forgetAfter = int64(history.ForgetAfter / time.Second)
	var old []any
	err := r.scan(ctx, p, func(writer, position string) {
		if at, known := heard(position); known && now-at >= forgetAfter {
			old = append(old, writer)
		}
	}, "hscan", writersKey(p))
	if err != nil {
		return err
	}
	if r.job.DryRun {
		r.did.Forgotten += uint64(len(old))
		return nil
	}
	for writers := range slices.Chunk(old, scanned) {
		r.step("forget")
		reply, err := r.run(ctx, p, r.scripts.forget, []string{writersKey(p)}, append([]any{forgetAfter}, writers...)...)
		if err != nil {
			return err
		}
		r.step("forgot")
		r.did.Forgotten += uint64(item[int64](reply, 1))
	}
	return nil
}

// heard is when a writer was heard of last, by its position: its last number.
func heard(position string) (at int64, ok bool) {
	_, last, _ := strings.Cut(position, " ")
	if _, after, refused := strings.Cut(last, " "); refused {
		last = after
	}
	at, err := strconv.ParseInt(last, 10, 64)
	return at, err == nil
}
