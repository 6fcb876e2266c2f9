package redishistory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis"
)

// never is when a series is due of which nothing is left.
const never = math.MaxInt64

// visit is what the job knows of a series that it is working on.
type visit struct {
	*record
	ages  *history.Keep
	exact map[history.Chunk]int64 // when a chunk of days is due whose first day is known
}

// due is when a chunk is due, or a little earlier: of days, as if the year's first were among them.
func (v *visit) due(c history.Chunk) int64 {
	if at, known := v.exact[c]; known {
		return at
	}
	return v.ages.Due(c, c.Start())
}

// next is the chunk that is moved or looked at next: of those due the finest and of these the oldest.
func (v *visit) next(now int64) (history.Chunk, bool) {
	slices.SortFunc(v.chunks, func(a, b history.Chunk) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Number, b.Number))
	})
	for _, c := range v.chunks {
		if v.due(c) <= now {
			return c, true
		}
	}
	return history.Chunk{}, false
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

// without are the series' chunks once one has gone to others.
func (r *record) without(gone history.Chunk, to ...history.Chunk) []history.Chunk {
	left := slices.DeleteFunc(slices.Clone(r.chunks), func(c history.Chunk) bool { return c == gone })
	for _, c := range to {
		if !slices.Contains(left, c) {
			left = append(left, c)
		}
	}
	return left
}

// became makes the record what the server's is now, as a script has changed it.
func (r *record) became(chunks []history.Chunk) {
	n, _ := strconv.ParseInt(r.version, 10, 64) // what is no number begins anew
	r.version, r.chunks = strconv.FormatInt(n+1, 10), chunks
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

// move moves a chunk that is due from a second on. It is false if the series' list of chunks is another one by now.
func (s *Store) move(ctx context.Context, p history.Partition, v *visit, c history.Chunk, from int64) (
	points int, ok bool, err error) {
	next := c.Tier + 1
	to := []history.Chunk{history.ChunkOf(next, c.Start())}
	if last := history.ChunkOf(next, c.End()-1); last != to[0] {
		to = append(to, last)
	}
	for _, t := range to {
		delete(v.exact, t) // it may get an earlier first day
	}
	left := v.without(c, to...)
	fine := 0
	if next < history.Days {
		fine = 1
	}
	own := keysOf(v.key, c)
	keys := append([]string{dueKey(p), v.key, own[0], own[len(own)-1]}, keysOf(v.key, to[0])...)
	args := []any{from, v.version, v.name, v.score(left), chunkName(c), next.Width() / c.Tier.Width(),
		(c.Start() - to[0].Start()) / c.Tier.Width(), fine, chunkName(to[0])}
	if len(to) > 1 {
		keys = append(keys, keysOf(v.key, to[1])...)
		args = append(args, to[0].Places(), chunkName(to[1]))
	}
	s.step("roll " + c.Tier.String())
	reply, err := s.run(ctx, p, s.scripts.roll, keys, args...)
	if err != nil {
		return 0, false, err
	}
	s.step("rolled " + c.Tier.String())
	switch status(reply) {
	case "early":
		return 0, false, errEarly
	case "stale":
		return 0, false, nil
	}
	if v.became(left); len(to) > 1 { // all may have gone to one of them
		err = s.reread(ctx, p, v.record)
	}
	return int(number(reply, 1)), true, err
}

// advance does what is due of a chunk, and says what it did; nil if the series' list of chunks is another one by now.
func (w *worker) advance(ctx context.Context, p history.Partition, v *visit, c history.Chunk, now int64) (
	did *history.Rolled, err error) {
	if c.Tier == history.Days {
		return w.expire(ctx, p, v, c, now)
	}
	err = w.paced(ctx, func() error {
		points, ok, err := w.move(ctx, p, v, c, w.keep.Due(c, 0))
		if ok {
			did = &history.Rolled{Series: 1}
			did.Moved(c, points)
		}
		return err
	})
	return did, err
}

// expire drops the days of a chunk that are older than the retention.
func (w *worker) expire(ctx context.Context, p history.Partition, v *visit, c history.Chunk, now int64) (
	did *history.Rolled, err error) {
	err = w.paced(ctx, func() error {
		ledger, err := w.loadPieces(ctx, p, v.record, [][]history.Chunk{{c}})
		if ledger == nil {
			return err
		}
		if v.damage != nil {
			return v.damage
		}
		cells := ledger.Get(c)
		gone, stay := w.keep.Expire(c, cells, now)
		if v.exact == nil {
			v.exact = make(map[history.Chunk]int64)
		}
		left := v.chunks
		if len(stay) > 0 {
			v.exact[c] = w.keep.Due(c, c.At(stay[0].Place))
		} else {
			left = v.without(c)
		}
		did = &history.Rolled{}
		if len(gone) == 0 && len(stay) > 0 {
			return nil
		}
		reply, err := w.drop(ctx, p, v, c, gone, v.score(left))
		if did = nil; err != nil || status(reply) == "stale" {
			return err
		}
		v.became(left)
		did = &history.Rolled{Expired: gone.Sum()}
		if len(gone) > 0 {
			did.Series = 1
			did.Moved(c, len(gone))
		}
		return nil
	})
	return did, err
}

// drop removes the first days of a chunk.
func (w *worker) drop(ctx context.Context, p history.Partition, v *visit, c history.Chunk, gone history.Cells,
	score string) (redis.Reply, error) {
	first, from := 0, int64(0)
	if n := len(gone); n > 0 {
		first, from = gone[n-1].Place+1, w.keep.Due(c, c.At(gone[n-1].Place))
	}
	w.step("expire")
	reply, err := w.run(ctx, p, w.scripts.expire, append([]string{dueKey(p), v.key}, keysOf(v.key, c)...),
		from, v.version, v.name, score, chunkName(c), first)
	if err != nil {
		return nil, err
	}
	w.step("expired")
	if status(reply) == "early" {
		return nil, errEarly
	}
	return reply, nil
}

// reschedule says when a series is due next that needs nothing now. It is false if its list of chunks is another one by
// now; then the record is fresh.
func (w *worker) reschedule(ctx context.Context, p history.Partition, v *visit) (bool, error) {
	reply, err := w.run(ctx, p, w.scripts.due, []string{dueKey(p), v.key}, v.version, v.name, v.score(v.chunks))
	if err != nil || status(reply) == "due" {
		return true, err
	}
	return false, w.reread(ctx, p, v.record)
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
		v := visit{record: &found[0], ages: &s.keep}
		c, any := s.keep.Early(v.chunks, now)
		if !any {
			return nil
		}
		_, moved, err := s.move(ctx, p, &v, c, 0)
		if err != nil {
			return err
		}
		if !moved {
			tries++
		}
	}
	return fmt.Errorf("partition %d of the history: series %+v changes quicker than it can be rolled", p, id)
}

// forget forgets the positions of writers that have not been heard of for long.
func (w *worker) forget(ctx context.Context, p history.Partition, now int64) error {
	const forgetAfter = int64(history.ForgetAfter / time.Second)
	for cursor, begun := "0", false; !begun || cursor != "0"; begun = true {
		answer, err := w.do(ctx, p, "hscan", writersKey(p), cursor, "count", scanned)
		if err != nil {
			return err
		}
		reply, _ := answer.([]any)
		if len(reply) != 2 {
			return errUnreadable
		}
		fields, _ := reply[1].([]any)
		old := []any{forgetAfter}
		for i := 0; i+1 < len(fields); i += 2 {
			if at, known := heard(text(fields, i+1)); known && now-at >= forgetAfter {
				old = append(old, text(fields, i))
			}
		}
		cursor = text(reply, 0)
		if w.job.DryRun {
			w.did.Forgotten += uint64(len(old) - 1)
			continue
		}
		if len(old) == 1 {
			continue
		}
		w.step("forget")
		done, err := w.run(ctx, p, w.scripts.forget, []string{writersKey(p)}, old...)
		if err != nil {
			return err
		}
		w.step("forgot")
		w.did.Forgotten += uint64(number(done, 1))
	}
	return nil
}

// heard is when a writer was heard of last, by its position.
func heard(position string) (at int64, ok bool) {
	var seq uint64
	n, err := fmt.Sscanf(position, "%d %d", &seq, &at)
	return at, n == 2 && err == nil
}
