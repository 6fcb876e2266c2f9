package ranking

import (
	"context"
	"errors"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// finder is a ranking under way.
type finder struct {
	config       *descriptors.Config
	store        Store
	domain, path string
	top          *board // keys that are known for certain
	pending      *board // keys that are known by a bound
	unread       []*candidate

	counted, over, noRule, untold uint64
}

// limits returns the limits of a key that is asked for.
func (f *finder) limits(key []byte) []descriptors.Limit {
	read, err := f.config.ReadKey(key)
	switch {
	case errors.Is(err, descriptors.ErrUntold) && (read.Domain == "" || read.Domain == f.domain):
		f.untold++
		return nil
	case err != nil || read.Domain != f.domain:
		return nil
	case read.Rule == nil:
		f.noRule++
		return nil
	case f.path != "" && read.Rule.Path != f.path:
		return nil
	}
	return read.Rule.Limits
}

// visit ranks a key by what a glance shows.
func (f *finder) visit(key []byte, limits []descriptors.Limit, holds []backend.Glance) {
	known, bound := candidate{share: -1}, candidate{share: -1}
	for i, g := range holds {
		if g.Hits == 0 {
			continue
		}
		c := candidate{at: i, hits: g.Hits, share: shareOf(g.Hits, &limits[i]), reset: g.ResetIn}
		if g.Exact {
			known.over = known.over || g.Hits >= limits[i].Capacity()
			known = fuller(known, c)
		}
		bound = fuller(bound, c)
	}
	if bound.share < 0 {
		return
	}
	f.counted++
	if known.over {
		f.over++
	}
	switch least := f.top.least(); {
	case bound.share < least:
	case bound.share == known.share:
		known.key = string(key)
		f.top.offer(known)
	case bound.share > least:
		bound.key, bound.over = string(key), known.over
		f.pending.offer(bound)
	}
}

// fuller returns the fuller of two limits of a key. That one is over stays known.
func fuller(a, b candidate) candidate {
	over := a.over || b.over
	if b.compare(&a) > 0 {
		a = b
	}
	a.over = over
	return a
}

// shareOf returns the share of a limit that is used. One that blocks everything is over from the first hit on.
func shareOf(hits uint64, l *descriptors.Limit) float64 {
	return float64(hits) / float64(max(1, l.Capacity()))
}

// readPending reads in full what may be among the fullest, as long as there is time. Its error is the store's.
func (f *finder) readPending(ctx context.Context, until time.Time) error {
	f.unread = f.pending.kept
	for len(f.unread) > 0 && f.unread[0].share > f.top.least() {
		c := f.unread[0]
		began := time.Now()
		if !began.Before(until) || ctx.Err() != nil {
			return nil
		}
		read, err := f.config.ReadKey([]byte(c.key))
		if err != nil || read.Rule == nil {
			return err // it was read before
		}
		counts, err := f.store.Inspect(ctx, []byte(c.key), read.Rule.Limits)
		if err != nil {
			return err
		}
		f.unread = f.unread[1:]
		f.settle(c, counts)
		select {
		case <-time.After(min(rest*time.Since(began), time.Until(until))):
		case <-ctx.Done():
		}
	}
	if len(f.unread) > 0 && f.unread[0].share <= f.top.least() {
		f.unread = nil
	}
	return nil
}

// settle ranks a key by all that it holds.
func (f *finder) settle(c *candidate, counts []backend.LimitCount) {
	known := candidate{share: -1}
	for i := range counts {
		n := &counts[i]
		if n.Hits > 0 {
			known = fuller(known, candidate{at: i, hits: n.Hits, share: shareOf(n.Hits, &n.Limit), reset: n.ResetIn, over: n.Remaining() == 0})
		}
	}
	if known.share < 0 { // all has left meanwhile
		f.counted--
		return
	}
	if known.over && !c.over {
		f.over++
	}
	known.key = c.key
	f.top.offer(known)
}

// fill writes what was found into an answer.
func (f *finder) fill(a *Answer) {
	a.Counted, a.Over, a.NoRule, a.Untold = f.counted, f.over, f.noRule, f.untold
	least := f.top.least()
	for _, c := range f.unread {
		if c.share > least {
			a.Unsure++
		}
	}
	a.Unsure += f.pending.passedAbove(least)
	a.Top = []Row{}
	for _, c := range f.top.kept {
		if read, err := f.config.ReadKey([]byte(c.key)); err == nil && read.Rule != nil {
			a.Top = append(a.Top, rowOf(c, &read))
		}
	}
}

// rowOf shows a candidate.
func rowOf(c *candidate, read *descriptors.Counted) Row {
	l := &read.Rule.Limits[c.at]
	row := Row{
		Descriptor: read.Descriptor.String(), Hashed: read.Hashed, Ambiguous: read.Ambiguous, Path: read.Rule.Path,
		Limit: l.String(), Algorithm: l.Algorithm.String(), Burst: l.Burst,
		Hits: c.hits, Remaining: l.Capacity() - min(l.Capacity(), c.hits), Share: c.share,
		ResetSeconds: int64((c.reset + time.Second - 1) / time.Second),
	}
	for i := range read.Descriptor {
		row.Shared = row.Shared || read.Rule.Shared(i) != ""
	}
	return row
}
