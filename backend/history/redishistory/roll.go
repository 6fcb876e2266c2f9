package redishistory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// maxFailedInARow is how many partitions in a row may fail before a run of the job ends: nothing answers any more.
const maxFailedInARow = 16

// Roll implements [history.Store]. It begins with any partition, so that jobs that run at the same time rarely meet,
// and goes on to the others where one fails, and to other series where one is damaged.
func (s *Store) Roll(ctx context.Context, now time.Time) (history.RollResult, error) {
	if s.c.ReadOnly {
		return history.RollResult{}, errReadOnly
	}
	return s.work(ctx, now, false)
}

// Due counts the partitions that a job at a moment would look at, and the series that are due there. It changes nothing.
func (s *Store) Due(ctx context.Context, now time.Time) (history.RollResult, error) {
	return s.work(ctx, now, true)
}

// work does what is due in all partitions, or with dry only counts it.
func (s *Store) work(ctx context.Context, now time.Time, dry bool) (history.RollResult, error) {
	r := &roller{Store: s, now: now, dry: dry, since: time.Now()}
	failedInARow := 0
	first := rand.IntN(history.Partitions)
	for i := 0; i < history.Partitions && failedInARow < maxFailedInARow && ctx.Err() == nil; i++ {
		before := r.failures
		if err := r.partition(ctx, history.Partition(first+i)); err != nil {
			r.noteError(err)
			failedInARow++
			continue
		}
		if failedInARow = 0; r.failures == before {
			r.did.Partitions++
		}
	}
	if ctx.Err() != nil {
		r.noteError(ctx.Err())
	}
	return r.did, r.failed
}

// roller is one run of the job.
type roller struct {
	*Store
	now   time.Time
	dry   bool // only counts the series that are due
	did   history.RollResult
	since time.Time // the last pause

	failed   error // the first; others would say the same
	failures int
}

// noteError notes an error, and the job goes on.
func (r *roller) noteError(err error) {
	r.failures++
	r.failed = cmp.Or(r.failed, err)
}

// partition does all that is due in a partition. If nothing is, it sends one command.
func (r *roller) partition(ctx context.Context, p history.Partition) error {
	reply, err := r.run(ctx, p, r.scripts.peek, []string{agesKey(p), dueKey(p), writersKey(p)}, r.now.Unix())
	if err != nil {
		return err
	}
	now, before, ages := item[int64](reply, 1), item[string](reply, 2), r.agesText()
	series, due, writers := item[int64](reply, 3) > 0, item[int64](reply, 4) > 0, item[int64](reply, 5) > 0
	if (series || writers) && !r.dry {
		err = r.prepare(ctx, p)
	}
	if err == nil && series && before != ages {
		err = r.rollAll(ctx, p, now, ages)
	} else if err == nil && due {
		err = r.rollUntil(ctx, p, now, float64(now))
	}
	if err != nil || !writers || r.dry {
		return err
	}
	return r.forget(ctx, p, now)
}

// rollAll looks at all series of a partition, as other ages have other dates, and notes the ages.
func (r *roller) rollAll(ctx context.Context, p history.Partition, now int64, ages string) error {
	failures := r.failures
	if err := r.rollUntil(ctx, p, now, math.Inf(1)); err != nil || r.dry || failures != r.failures {
		return err
	}
	if _, err := r.command(ctx, p, "set", agesKey(p), ages); err != nil { // a full server; the next job visits all again
		r.log.Debug("the ages of the tiers were not noted", "error", err)
	}
	return nil
}

// agesText is how long each tier is kept, in seconds: what the dates in the due set were made with.
func (s *Store) agesText() string {
	var all []string
	for _, age := range s.c.Keep.Ages {
		all = append(all, strconv.FormatInt(int64(age/time.Second), 10))
	}
	return strings.Join(all, " ")
}

// rollUntil does what is due of the series of a partition that are scheduled until a moment. One that is damaged, or a
// name that is none, does not stop it.
func (r *roller) rollUntil(ctx context.Context, p history.Partition, now int64, until float64) error {
	ids, damage, err := r.scanNames(ctx, p, &history.Query{}, until)
	for _, d := range damage {
		r.noteError(d)
	}
	for page := range slices.Chunk(ids, pageSize) {
		var records []record
		if err == nil {
			r.pause(ctx)
			records, _, err = r.readRecords(ctx, p, page)
		}
		for i := 0; i < len(records) && err == nil; i++ {
			err = r.noteDamage(r.roll(ctx, p, &records[i], now))
		}
		err = r.noteDamage(err)
	}
	return err
}

// noteDamage notes an error about damage. Any other error stays one.
func (r *roller) noteDamage(err error) error {
	if errors.Is(err, ErrDamaged) {
		r.noteError(err)
		return nil
	}
	return err
}

// roll moves all chunks of a series that are due, as far as they go, and drops the days that are too old; or it counts
// the series.
func (r *roller) roll(ctx context.Context, p history.Partition, series *record, now int64) error {
	if series.damage != nil {
		return series.damage
	}
	if r.dry {
		if series.next(&r.c.Keep, now) != nil {
			r.did.Series++
		}
		return nil
	}
	before := r.did
	err := r.rollSeries(ctx, p, series, now, &r.did, func() []history.Chunk {
		r.pause(ctx)
		return series.next(&r.c.Keep, now)
	})
	if r.did != before {
		r.did.Series++
	}
	return err
}

// changedTooOften returns the error of a series that was changed again and again while it was read or moved.
func changedTooOften(p history.Partition, id history.ID) error {
	return fmt.Errorf("partition %d of the history: series %+v changes faster than it can be read: try again", p, id)
}

// pause waits so that the job, and the servers with it, work no more than Config.Pace of the time.
func (r *roller) pause(ctx context.Context) {
	owed := time.Duration(float64(time.Since(r.since)) * (1/r.c.Pace - 1))
	if owed < time.Millisecond {
		return
	}
	select {
	case <-time.After(owed):
	case <-ctx.Done():
	}
	r.since = time.Now()
}
