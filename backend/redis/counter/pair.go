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
	p.splits.New = func() any { return &split{done: make(chan struct{}, 1)} }
	return p
}

// isPerSecond says whether limits, of which there is one at least, are all of unit second, whatever its multiplier.
func isPerSecond(limits []descriptors.Limit) bool {
	for i := range limits {
		if limits[i].Unit != descriptors.Second {
			return false
		}
	}
	return true
}

// of is the store that counts under these limits.
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
	err := s.decide(ctx, p, checks, out)
	s.release()
	p.splits.Put(s)
	return err
}

// decidePerSecond asks the Redis for limits per second, and says where it failed that it is this one.
func (p *Pair) decidePerSecond(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	err := p.perSecond.Decide(ctx, checks, out)
	for i := range checks {
		out[i].Err = namePerSecond(out[i].Err)
	}
	return namePerSecond(err)
}

// split is one call of Decide on its way to both stores.
type split struct {
	main, perSecond part
	done            chan struct{} // has a token once the limits per second are decided
}

// part is what one store gets of a call.
type part struct {
	checks []backend.Check
	out    []backend.Decision
	at     []int // where they stand in the call
	err    error
}

func (s *split) decide(ctx context.Context, p *Pair, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		if isPerSecond(checks[i].Limits) {
			s.perSecond.add(checks, i)
		} else {
			s.main.add(checks, i)
		}
	}
	go func() {
		s.perSecond.err = p.decidePerSecond(ctx, s.perSecond.checks, s.perSecond.out)
		s.done <- struct{}{}
	}()
	s.main.err = p.main.Decide(ctx, s.main.checks, s.main.out)
	<-s.done
	s.main.hand(out)
	s.perSecond.hand(out)
	return cmp.Or(s.main.err, s.perSecond.err)
}

func (s *split) release() {
	s.main.clear()
	s.perSecond.clear()
}

func (p *part) add(checks []backend.Check, i int) {
	p.checks = append(p.checks, checks[i])
	p.out = append(p.out, backend.Decision{})
	p.at = append(p.at, i)
}

// hand puts the decisions where they belong in the call.
func (p *part) hand(out []backend.Decision) {
	for i, at := range p.at {
		out[at] = p.out[i]
	}
}

// clear forgets the call.
func (p *part) clear() {
	clear(p.checks)
	clear(p.out)
	p.checks, p.out, p.at, p.err = p.checks[:0], p.out[:0], p.at[:0], nil
}

// Inspect asks the store that counts under these limits.
func (p *Pair) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	return p.of(limits).Inspect(ctx, key, limits)
}

// Reset forgets the key in both stores: a request may have brought a limit of another unit, and the configuration may
// have had one.
func (p *Pair) Reset(ctx context.Context, key []byte) error {
	other := make(chan error, 1)
	go func() { other <- namePerSecond(p.perSecond.Reset(ctx, key)) }()
	return errors.Join(p.main.Reset(ctx, key), <-other)
}

// Close closes both stores.
func (p *Pair) Close() error {
	other := make(chan error, 1)
	go func() { other <- namePerSecond(p.perSecond.Close()) }()
	return errors.Join(p.main.Close(), <-other)
}

// namePerSecond says which of the two an error is about.
func namePerSecond(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("limits per second: %w", err)
}
