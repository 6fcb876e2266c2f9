package redishistory

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// maxFailedInARow is how many partitions in a row may fail before the job ends, as probably no server answers.
const maxFailedInARow = 16

// Downsample implements [history.Store]. It begins with a random partition, so that concurrent jobs rarely work on the
// same one. It continues after an error of a partition or a damaged series, and returns the first error.
func (s *Store) Downsample(ctx context.Context, now time.Time) (history.DownsampleResult, error) {
	if s.c.ReadOnly {
		return history.DownsampleResult{}, errReadOnly
	}
	return s.runJob(ctx, now, false)
}

// Due counts the partitions that a job at a moment would visit, and the series that are due there. It changes nothing.
func (s *Store) Due(ctx context.Context, now time.Time) (history.DownsampleResult, error) {
	return s.runJob(ctx, now, true)
}

// runJob visits all partitions. With dry it only counts the series that are due.
func (s *Store) runJob(ctx context.Context, now time.Time, dry bool) (history.DownsampleResult, error) {
	j := &job{Store: s, now: now, dry: dry, lastPause: time.Now()}
	failedInARow := 0
	first := rand.IntN(history.Partitions)
	for i := 0; i < history.Partitions && failedInARow < maxFailedInARow && ctx.Err() == nil; i++ {
		before := j.failures
		err := j.visitPartition(ctx, history.Partition(first+i))
		if s.OnVisit != nil {
			s.OnVisit()
		}
		if err != nil {
			j.noteError(err)
			failedInARow++
			continue
		}
		if failedInARow = 0; j.failures == before {
			j.did.Partitions++
		}
	}
	if ctx.Err() != nil {
		j.noteError(ctx.Err())
	}
	return j.did, j.firstError
}

// job is one run of the downsampling job.
type job struct {
	*Store
	now       time.Time
	dry       bool
	did       history.DownsampleResult
	lastPause time.Time

	firstError error
	failures   int
}

// noteError notes an error after which the job continues.
func (j *job) noteError(err error) {
	j.failures++
	j.firstError = cmp.Or(j.firstError, err)
}

// visitPartition downsamples the due series of a partition, and deletes the positions of old writers. If there is
// nothing to do, it sends one command.
func (j *job) visitPartition(ctx context.Context, p history.Partition) error {
	reply, err := j.run(ctx, p, j.scripts.peek, []string{agesKey(p), dueKey(p), writersKey(p)}, j.now.Unix())
	if err != nil {
		return err
	}
	now, storedAges, ages := item[int64](reply, 1), item[string](reply, 2), j.agesText()
	hasSeries, hasDue, hasWriters := item[int64](reply, 3) > 0, item[int64](reply, 4) > 0, item[int64](reply, 5) > 0
	if (hasSeries || hasWriters) && !j.dry {
		err = j.probe(ctx, p)
	}
	if err == nil && hasSeries && storedAges != ages {
		err = j.visitAll(ctx, p, now, ages)
	} else if err == nil && hasDue {
		err = j.visitDue(ctx, p, now, float64(now))
	}
	if err != nil || !hasWriters || j.dry {
		return err
	}
	return j.deleteWriters(ctx, p, now)
}

// visitAll visits all series of a partition, since their due dates depend on the ages, and stores the ages.
func (j *job) visitAll(ctx context.Context, p history.Partition, now int64, ages string) error {
	failures := j.failures
	if err := j.visitDue(ctx, p, now, math.Inf(1)); err != nil || j.dry || failures != j.failures {
		return err
	}
	if _, err := j.command(ctx, p, "set", agesKey(p), ages); err != nil { // the server is full; the next job visits all series again
		j.log.Debug("the ages of the tiers were not stored", "error", err)
	}
	return nil
}

// agesText returns the ages of the retention in seconds, by which the due dates in the due set are computed.
func (s *Store) agesText() string {
	var all []string
	for _, age := range s.c.Retention.Ages {
		all = append(all, strconv.FormatInt(int64(age/time.Second), 10))
	}
	return strings.Join(all, " ")
}

// visitDue visits the series of a partition that are due until a moment. It continues after damaged series and invalid
// names.
func (j *job) visitDue(ctx context.Context, p history.Partition, now int64, until float64) error {
	ids, damage, err := j.scanNames(ctx, p, &history.Query{}, until)
	for _, d := range damage {
		j.noteError(d)
	}
	for page := range slices.Chunk(ids, pageSize) {
		var records []record
		if err == nil {
			j.pause(ctx)
			records, _, err = j.readRecords(ctx, p, page)
		}
		for i := 0; i < len(records) && err == nil; i++ {
			err = j.noteDamage(j.visit(ctx, &records[i], now))
		}
		err = j.noteDamage(err)
	}
	return err
}

// noteDamage notes an error about damage and returns nil. It returns any other error.
func (j *job) noteDamage(err error) error {
	if errors.Is(err, ErrDamaged) {
		j.noteError(err)
		return nil
	}
	return err
}

// visit moves all due chunks of a series as far as they are due, and drops expired days. In a dry run it only counts
// the series.
func (j *job) visit(ctx context.Context, r *record, now int64) error {
	if r.damage != nil {
		return r.damage
	}
	if j.dry {
		if r.dueChunks(&j.c.Retention, now) != nil {
			j.did.Series++
		}
		return nil
	}
	before := j.did
	err := j.downsampleSeries(ctx, r, now, &j.did, func() []history.Chunk {
		j.pause(ctx)
		return r.dueChunks(&j.c.Retention, now)
	})
	if j.did != before {
		j.did.Series++
	}
	return err
}

// pause waits so that the job keeps a server busy for at most Config.Pace of the time.
func (j *job) pause(ctx context.Context) {
	owed := time.Duration(float64(time.Since(j.lastPause)) * (1/j.c.Pace - 1))
	if owed < time.Millisecond {
		return
	}
	select {
	case <-time.After(owed):
	case <-ctx.Done():
	}
	j.lastPause = time.Now()
}

// deleteWriters deletes the positions of writers that have not written for history.WriterTTL.
func (j *job) deleteWriters(ctx context.Context, p history.Partition, now int64) error {
	const writerTTL = int64(history.WriterTTL / time.Second)
	var old []any
	err := j.scan(ctx, p, func(writer, position string) {
		if at, ok := lastWrite(position); ok && now-at >= writerTTL {
			old = append(old, writer)
		}
	}, "hscan", writersKey(p))
	if err != nil {
		return err
	}
	for writers := range slices.Chunk(old, scanCount) {
		j.c.Step("delete writers")
		_, err := j.run(ctx, p, j.scripts.deleteWriters, []string{writersKey(p)}, append([]any{writerTTL}, writers...)...)
		if err != nil {
			return err
		}
		j.c.Step("deleted writers")
	}
	return nil
}

// lastWrite returns when a writer last wrote: the last number of its position.
func lastWrite(position string) (at int64, ok bool) {
	space := strings.LastIndexByte(position, ' ')
	at, err := strconv.ParseInt(position[space+1:], 10, 64)
	return at, space >= 0 && err == nil
}
