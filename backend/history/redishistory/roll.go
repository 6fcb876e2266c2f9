package redishistory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

const (
	// givesUp is how many partitions in a row may fail before a run of the job ends: nothing answers any more.
	givesUp = 16
	// toldErrors is how many errors of a run are told; the others would say the same.
	toldErrors = 5
)

// Roll is history.Store's. It begins with any partition, so that jobs that run at the same time rarely meet, and goes
// on to the others where one fails, and to other series where one is damaged.
func (s *Store) Roll(ctx context.Context, job history.Job) (history.RollResult, error) {
	if s.reads {
		return history.RollResult{}, errReadOnly
	}
	w := &worker{Store: s, job: job}
	row := 0
	for i, first := 0, rand.IntN(history.Partitions); i < history.Partitions && row < givesUp && ctx.Err() == nil; i++ {
		before := w.failures
		if err := w.partition(ctx, history.Partition(first+i)); err != nil {
			w.fail(err)
			row++
			continue
		}
		if row = 0; w.failures == before {
			w.did.Partitions++
		}
		if job.Progress != nil {
			job.Progress(w.did)
		}
	}
	if ctx.Err() != nil {
		w.fail(ctx.Err())
	}
	if w.failures > toldErrors {
		w.failed = errors.Join(w.failed, fmt.Errorf("and %d more errors", w.failures-toldErrors))
	}
	return w.did, w.failed
}

// worker is one run of the job.
type worker struct {
	*Store
	job  history.Job
	did  history.RollResult
	rest time.Duration // that the servers are owed

	failed   error
	failures int
}

// fail notes an error, and the job goes on.
func (w *worker) fail(err error) {
	if w.failures++; w.failures <= toldErrors {
		w.failed = errors.Join(w.failed, err)
	}
}

// partition does all that is due in a partition. Where that is nothing, it asks the server once.
func (w *worker) partition(ctx context.Context, p history.Partition) error {
	reply, err := w.run(ctx, p, w.scripts.glance, []string{agesKey(p), dueKey(p), writersKey(p)}, w.job.Now.Unix())
	if err != nil {
		return err
	}
	now, before, ages := item[int64](reply, 1), item[string](reply, 2), w.agesText()
	series, due, writers := item[int64](reply, 3) > 0, item[int64](reply, 4) > 0, item[int64](reply, 5) > 0
	if series || writers {
		err = w.prepare(ctx, p)
	}
	switch {
	case err != nil || !series:
	case before != ages:
		err = w.anew(ctx, p, now, ages)
	case due:
		err = w.due(ctx, p, now)
	}
	if err != nil || !writers {
		return err
	}
	return w.forget(ctx, p, now)
}

// anew visits all series of a partition, as other ages have other dates, and notes the ages.
func (w *worker) anew(ctx context.Context, p history.Partition, now int64, ages string) error {
	failures := w.failures
	if err := w.all(ctx, p, now); err != nil || w.job.DryRun || failures != w.failures {
		return err
	}
	if _, err := w.do(ctx, p, "set", agesKey(p), ages); err != nil { // a full server; the next job visits all again
		w.log.Debug("the ages of the tiers were not noted", "error", err)
	}
	return nil
}

// agesText is how long each tier is kept, in seconds: what the dates in the set of those due were made with.
func (s *Store) agesText() string {
	var all []string
	for _, age := range s.keep.Ages {
		all = append(all, strconv.FormatInt(int64(age/time.Second), 10))
	}
	return strings.Join(all, " ")
}

// all visits all series of a partition.
func (w *worker) all(ctx context.Context, p history.Partition, now int64) error {
	ids, damage, err := w.names(ctx, p, nil)
	for _, d := range damage {
		w.fail(d)
	}
	for page := range slices.Chunk(ids, pageSize) {
		if err != nil {
			return err
		}
		err = w.visit(ctx, p, page, now)
	}
	return err
}

// due visits the series of a partition that are due. It steps over what is no name of a series.
func (w *worker) due(ctx context.Context, p history.Partition, now int64) error {
	seen := make(map[string]bool)
	for skip := 0; ; { // over those that stay due: in a dry run all
		answer, err := w.do(ctx, p, "zrangebyscore", dueKey(p), "-inf", now, "limit", skip, pageSize)
		if err != nil {
			return err
		}
		members, _ := answer.([]any)
		var page []history.ID
		for i := range members {
			name := item[string](members, i)
			id, err := parseName(p, name)
			if w.job.DryRun || err != nil || seen[name] { // what comes again will come again: late hits came between
				skip++
			}
			switch {
			case seen[name]:
			case err != nil:
				w.fail(err)
			default:
				page = append(page, id)
			}
			seen[name] = true
		}
		if len(members) == 0 {
			return nil
		}
		if err := w.visit(ctx, p, page, now); err != nil {
			return err
		}
	}
}

// visit does what is due of some series. One that is damaged does not stop it.
func (w *worker) visit(ctx context.Context, p history.Partition, ids []history.ID, now int64) error {
	if len(ids) == 0 {
		return nil
	}
	var records []record
	err := w.paced(ctx, func() (err error) {
		records, _, err = w.records(ctx, p, ids)
		return err
	})
	for i := 0; i < len(records) && err == nil; i++ {
		err = w.tolerate(w.one(ctx, p, &records[i], now))
	}
	return w.tolerate(err)
}

// tolerate notes what is damaged. Any other error stays one.
func (w *worker) tolerate(err error) error {
	if errors.Is(err, ErrDamaged) {
		w.fail(err)
		return nil
	}
	return err
}

// one does what is due of a series, or counts what that would be.
func (w *worker) one(ctx context.Context, p history.Partition, r *record, now int64) error {
	if r.damage != nil {
		return r.damage
	}
	if !w.job.DryRun {
		return w.roll(ctx, p, r, now)
	}
	ledger, err := w.load(ctx, p, r, func(history.Chunk) bool { return true })
	if err = cmp.Or(err, r.damage); err == nil {
		w.did.Add(ledger.Roll(&w.keep, now))
	}
	return err
}

// roll moves all chunks of a series that are due, as far as they go, and drops the days that are too old.
func (w *worker) roll(ctx context.Context, p history.Partition, r *record, now int64) (err error) {
	plan, others := visit{record: r, ages: &w.keep}, w.did.Series
	for stale := 0; stale < maxReads; {
		var done bool
		c, found := plan.next(now)
		if found {
			err = w.paced(ctx, func() (err error) {
				done, err = w.advance(ctx, p, &plan, c, now)
				return err
			})
			w.did.Series = min(w.did.Series, others+1) // however many of its chunks have moved
		} else {
			done, err = w.reschedule(ctx, p, &plan)
		}
		if err != nil || done && !found {
			return err
		}
		if !done {
			stale++
			if err := w.reread(ctx, p, r); err != nil {
				return err
			}
		}
	}
	return unsteady(p, r.id)
}

// unsteady is the error of a series that was changed again and again while it was read or moved.
func unsteady(p history.Partition, id history.ID) error {
	return fmt.Errorf("partition %d of the history: series %+v changes faster than it can be read: try again", p, id)
}

// paced calls f and then rests, so that the server works for the job in no more than its part of the time.
func (w *worker) paced(ctx context.Context, f func() error) error {
	begin := time.Now()
	err := f()
	w.rest += time.Duration(float64(time.Since(begin)) * (1/w.pace - 1))
	if w.rest < time.Millisecond {
		return err
	}
	select {
	case <-time.After(w.rest):
	case <-ctx.Done():
	}
	w.rest = 0
	return err
}
