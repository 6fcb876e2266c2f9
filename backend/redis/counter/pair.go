package counter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// Pair counts in two Redis: checks whose limits are all written per second in one, all others in the other. A check
// whose limits are of several units is not split, since it counts under all of them or under none.
type Pair struct {
	main, perSecond Counters
	parted          parted
}

// Counters are what a Pair is made of: a Store, or a Mixed.
type Counters interface {
	backend.Counter
	backend.Inspector
	backend.Lister
}

var (
	_ backend.Counter   = (*Pair)(nil)
	_ backend.Inspector = (*Pair)(nil)
	_ backend.Lister    = (*Pair)(nil)
)

// NewPair makes two stores one, which closes both.
func NewPair(main, perSecond Counters) *Pair { return &Pair{main: main, perSecond: perSecond} }

// isPerSecond reports whether limits, of which there is one at least, are all of unit second, whatever its multiplier.
func isPerSecond(limits []descriptors.Limit) bool {
	for i := range limits {
		if limits[i].Unit != descriptors.Second {
			return false
		}
	}
	return true
}

// of returns the store that counts under these limits.
func (p *Pair) of(limits []descriptors.Limit) Counters {
	if isPerSecond(limits) {
		return p.perSecond
	}
	return p.main
}

// Decide asks both stores at the same time, each for its own checks, or only the one that has all of them.
func (p *Pair) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := backend.Valid(checks, out); err != nil {
		return err
	}
	perSecond := 0
	for i := range checks {
		if isPerSecond(checks[i].Limits) {
			perSecond++
		}
	}
	switch perSecond {
	case 0:
		return p.main.Decide(ctx, checks, out)
	case len(checks):
		return p.decidePerSecond(ctx, checks, out)
	}
	return p.parted.decide(ctx, checks, out, func(c *backend.Check) bool { return isPerSecond(c.Limits) },
		p.main.Decide, p.decidePerSecond)
}

// decidePerSecond asks the Redis for limits per second, and names it in errors.
func (p *Pair) decidePerSecond(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	err := p.perSecond.Decide(ctx, checks, out)
	for i := range checks {
		out[i].Err = namePerSecond(out[i].Err)
	}
	return namePerSecond(err)
}

// Inspect asks the store that counts under these limits.
func (p *Pair) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	return p.of(limits).Inspect(ctx, key, limits)
}

// Reset forgets the key in both stores: a request may have brought a limit of another unit, and the configuration may
// have had one.
func (p *Pair) Reset(ctx context.Context, key []byte) error {
	return p.both(func(c Counters) error { return c.Reset(ctx, key) })
}

// List looks at both stores at the same time, at each for the keys that it counts now.
func (p *Pair) List(ctx context.Context, ask backend.Listing) (backend.Listed, error) {
	var mu sync.Mutex // of ask's functions
	var all backend.Listed
	all.Complete = true
	err := p.both(func(c Counters) error {
		part := backend.Listing{For: ask.For, Limits: func(key []byte) []descriptors.Limit {
			mu.Lock()
			defer mu.Unlock()
			if limits := ask.Limits(key); len(limits) > 0 && p.of(limits) == c {
				return limits
			}
			return nil
		}, Visit: func(key []byte, limits []descriptors.Limit, holds []backend.Glance) {
			mu.Lock()
			defer mu.Unlock()
			ask.Visit(key, limits, holds)
		}}
		listed, err := c.List(ctx, part)
		mu.Lock()
		defer mu.Unlock()
		all.Add(listed)
		return err
	})
	return all, err
}

// Close closes both stores.
func (p *Pair) Close() error { return p.both(Counters.Close) }

// both does something with both stores at the same time.
func (p *Pair) both(f func(Counters) error) error {
	other := make(chan error, 1)
	go func() { other <- namePerSecond(f(p.perSecond)) }()
	return errors.Join(f(p.main), <-other)
}

// namePerSecond adds to an error which of the two stores it is about.
func namePerSecond(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("limits per second: %w", err)
}
