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
	reply, err := s.change(ctx, p, s.scripts.roll, keys, args...)
	if reply == nil {
		return 0, false, err
	}
	s.step("rolled " + c.Tier.String())
	if v.became(left); len(to) > 1 { // all may have gone to one of them
		err = s.reread(ctx, p, v.record)
	}
	return int(item[int64](reply, 1)), true, err
}

// advance does what is due of a chunk. It is not done if the series' list of chunks is another one by now.
func (r *roller) advance(ctx context.Context, p history.Partition, v *visit, c history.Chunk, now int64) (bool, error) {
	if c.Tier == history.Days {
		return r.expire(ctx, p, v, c, now)
	}
	points, done, err := r.move(ctx, p, v, c, r.keep.Due(c, 0))
	if done {
		r.did.Series++
		r.did.Moved(c, points)
	}
	return done, err
}

// expire drops the days of a chunk that are older than the retention. It is not done if the series' list of chunks is
// another one by now.
func (r *roller) expire(ctx context.Context, p history.Partition, v *visit, c history.Chunk, now int64) (bool, error) {
	first, from := r.keep.FirstKept(c, now), int64(0)
	if first > 0 {
		from = r.keep.Due(c, c.At(first-1))
	}
	r.step("expire")
	reply, err := r.change(ctx, p, r.scripts.expire, append([]string{v.key}, keysOf(v.key, c)...),
		from, v.version, chunkName(c), first)
	if reply == nil {
		return false, err
	}
	r.step("expired")
	points, left := int(item[int64](reply, 1)), int(item[int64](reply, 3))
	hits, err := parseCount(item[string](reply, 2))
	if err != nil {
		return false, errUnreadable
	}
	if left < 0 {
		v.became(v.without(c))
	} else if v.exact[c] = r.keep.Due(c, c.At(left)); points > 0 {
		v.became(v.chunks)
	}
	if r.did.Expired += hits; points > 0 {
		r.did.Series++
		r.did.Moved(c, points)
	}
	return true, nil
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
