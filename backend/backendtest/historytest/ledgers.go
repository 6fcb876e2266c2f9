package historytest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// Ledgers is a store in maps: the arithmetic of package history under a lock, and nothing else.
type Ledgers struct {
	o  Options
	mu sync.Mutex
	s  Snapshot
}

// Snapshot is all that a store of ledgers held at a moment.
type Snapshot struct {
	series    map[history.ID]*history.Ledger
	positions map[ledgerWriter]ledgerPosition
}

type ledgerWriter struct {
	p    history.Partition
	name string
}

type ledgerPosition struct {
	last, refused uint64
	at            time.Time
}

// NewLedgers returns an empty store.
func NewLedgers(o Options) *Ledgers {
	return &Ledgers{o: o, s: Snapshot{make(map[history.ID]*history.Ledger), make(map[ledgerWriter]ledgerPosition)}}
}

// Snapshot returns what a replica has that never hears of its primary again.
func (l *Ledgers) Snapshot() Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s.clone()
}

// Restore makes that replica the primary.
func (l *Ledgers) Restore(s Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.s = s.clone()
}

func (s Snapshot) clone() Snapshot {
	out := Snapshot{make(map[history.ID]*history.Ledger), maps.Clone(s.positions)}
	for id, series := range s.series {
		out.series[id] = cloneLedger(series)
	}
	return out
}

func cloneLedger(l *history.Ledger) *history.Ledger {
	out := &history.Ledger{Totals: l.Totals, Chunks: maps.Clone(l.Chunks)}
	for c, cells := range out.Chunks {
		out.Chunks[c] = slices.Clone(cells)
	}
	return out
}

// Settle implements [history.Store].
func (l *Ledgers) WaitReplicated(context.Context) error { return nil }

// Close implements [history.Store].
func (l *Ledgers) Close() error { return nil }

// Apply implements [history.Store].
func (l *Ledgers) Apply(_ context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	l.o.Step("apply begins")
	defer l.o.Step("apply ended")
	l.mu.Lock()
	defer l.mu.Unlock()
	w, now := ledgerWriter{p, b.Writer}, l.o.Now()
	was := l.s.positions[w]
	r := history.ApplyResult{Status: b.Status(was.last), Last: was.last, Refused: was.refused}
	if r.Status != history.Applied {
		return r, nil
	}
	r.Refused = 0
	for _, i := range b.Increments {
		if l.s.series[i.ID] == nil {
			l.s.series[i.ID] = &history.Ledger{}
		}
		series := l.s.series[i.ID]
		if err := series.Apply(series, &i, &l.o.Retention, now.Unix(), &r); err != nil {
			return r, err
		}
	}
	l.s.positions[w], r.Last = ledgerPosition{b.Seq, r.Refused, now}, b.Seq
	return r, nil
}

// Downsample implements [history.Store].
func (l *Ledgers) Downsample(_ context.Context, now time.Time) (history.DownsampleResult, error) {
	l.o.Step("downsample begins")
	did := history.DownsampleResult{Partitions: history.Partitions}
	l.mu.Lock()
	defer l.mu.Unlock()
	if clock := l.o.Now(); now.After(clock) {
		now = clock
	}
	for id, series := range l.s.series {
		did.Add(DownsampleLedger(series, l.o.Retention, now))
		if series.FullyExpired(id) {
			delete(l.s.series, id)
		}
	}
	maps.DeleteFunc(l.s.positions, func(_ ledgerWriter, p ledgerPosition) bool { return now.Sub(p.at) >= history.WriterTTL })
	return did, nil
}

// DownsampleLedger moves all of a series that is due at a moment, as far as it goes, and drops the days that are too
// old.
func DownsampleLedger(l *history.Ledger, k history.Retention, now time.Time) (did history.DownsampleResult) {
	for t := range history.Tiers { // the finest first, so that each chunk goes as far as it can
		for _, c := range slices.Collect(maps.Keys(l.Chunks)) {
			if c.Tier == history.Tier(t) && k.Due(c, c.Start()) <= now.Unix() {
				_ = l.Totals.Downsample(l, c, &k, now.Unix(), &did) // in memory, it cannot fail
			}
		}
	}
	if did.Chunks > 0 {
		did.Series = 1
	}
	return did
}

// Query implements [history.Store].
func (l *Ledgers) Query(_ context.Context, q history.Query, yield func(history.Series) error) error {
	l.mu.Lock()
	var found []history.Series
	for _, id := range slices.Collect(maps.Keys(l.s.series)) {
		if q.Matches(id) {
			found = append(found, l.s.series[id].Series(id, q.From, q.To))
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
