package history_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

// ledgers is a store in maps: the arithmetic of the package under a lock, and nothing else.
type ledgers struct {
	o         historytest.Options
	mu        sync.Mutex
	series    map[history.ID]*history.Ledger
	positions map[writer]position
}

type writer struct {
	p    history.Partition
	name string
}

type position struct {
	last uint64
	at   time.Time
}

func newLedgers(o historytest.Options) *ledgers {
	return &ledgers{o: o, series: make(map[history.ID]*history.Ledger), positions: make(map[writer]position)}
}

func (l *ledgers) Apply(_ context.Context, p history.Partition, b history.Batch) (history.Receipt, error) {
	if err := b.Check(p); err != nil {
		return history.Receipt{}, err
	}
	l.o.Step("apply begins")
	defer l.o.Step("apply ended")
	l.mu.Lock()
	defer l.mu.Unlock()
	w, now := writer{p, b.Writer}, l.o.Now()
	r := history.Receipt{Last: l.positions[w].last}
	if r.Landing = b.Landing(r.Last); r.Landing != history.Landed {
		return r, nil
	}
	for _, i := range b.Increments {
		series := l.series[i.ID]
		if series == nil {
			series = &history.Ledger{}
			l.series[i.ID] = series
		}
		present := now.Unix() / 60
		switch {
		case !series.Count(min(i.Minute, present), i.Hits):
			r.Refused += i.Hits
		case i.Minute > present:
			r.Clamped += i.Hits
		}
		series.Shrink(&l.o.Keep, now.Unix())
	}
	l.positions[w], r.Last = position{b.Seq, now}, b.Seq
	return r, nil
}

func (l *ledgers) Roll(_ context.Context, job history.Job) (history.Rolled, error) {
	l.o.Step("roll begins")
	did := history.Rolled{Partitions: history.Partitions}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := job.Now
	if clock := l.o.Now(); now.After(clock) {
		now = clock
	}
	for id, series := range l.series {
		after := series.Clone()
		did.Add(after.Roll(&l.o.Keep, now.Unix()))
		if !job.DryRun {
			l.series[id] = after
		}
	}
	for w, p := range l.positions {
		if now.Sub(p.at) >= history.ForgetAfter {
			did.Forgotten++
			if !job.DryRun {
				delete(l.positions, w)
			}
		}
	}
	if job.Progress != nil {
		job.Progress(did)
	}
	return did, nil
}

func (l *ledgers) Query(_ context.Context, q history.Query, yield func(history.Series) error) error {
	l.mu.Lock()
	var found []history.Series
	for _, id := range slices.Collect(maps.Keys(l.series)) {
		if q.Matches(id) {
			found = append(found, l.series[id].Series(id, q.From, q.To))
		}
	}
	l.mu.Unlock()
	for _, s := range found {
		if err := yield(s); err != nil {
			return err
		}
	}
	return nil
}
