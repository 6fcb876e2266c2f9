package counter

import (
	"cmp"
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
	main, perSecond *Store
	splits          sync.Pool // of *split
}

var (
	_ backend.Counter   = (*Pair)(nil)
	_ backend.Inspector = (*Pair)(nil)
)

// NewPair makes two stores one, which closes both.
func NewPair(main, perSecond *Store) *Pair {
	p := &Pair{main: main, perSecond: perSecond}
	p.splits.New = func() any { return &split{done: make(chan error, 1)} }
	return p
}

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
func (p *Pair) of(limits []descriptors.Limit) *Store {
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
	s := p.splits.Get().(*split)
	for i := range checks {
		if isPerSecond(checks[i].Limits) {
			s.perSecond.Add(checks, i)
		} else {
			s.main.Add(checks, i)
		}
	}
	go func() { s.done <- p.decidePerSecond(ctx, s.perSecond.Checks, s.perSecond.Out) }()
	err := cmp.Or(p.main.Decide(ctx, s.main.Checks, s.main.Out), <-s.done)
	for _, part := range []*backend.Part{&s.main, &s.perSecond} {
		part.HandOver(out)
		part.Reset()
	}
	p.splits.Put(s)
	return err
}

// split is the checks of a call on their way to both stores.
type split struct {
	main, perSecond backend.Part
	done            chan error // has a token once the limits per second are decided
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
	return p.both(func(s *Store) error { return s.Reset(ctx, key) })
}

// Close closes both stores.
func (p *Pair) Close() error { return p.both((*Store).Close) }

// both does something with both stores at the same time.
func (p *Pair) both(f func(*Store) error) error {
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
