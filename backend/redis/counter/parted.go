package counter

import (
	"cmp"
	"context"
	"sync"

	"github.com/weirproxy/weir/backend"
)

// parted decides the checks of a call in two places at the same time. The zero value is ready.
type parted struct {
	splits sync.Pool // of *split
}

// split is the checks of a call on their way to both places.
type split struct {
	first, second backend.Part
	done          chan error // has a token once the second ones are decided
}

// decider is the method of a backend.Counter.
type decider func(ctx context.Context, checks []backend.Check, out []backend.Decision) error

// decide has those checks decided by second that are told to be, and the others by first.
func (p *parted) decide(ctx context.Context, checks []backend.Check, out []backend.Decision,
	seconds func(*backend.Check) bool, first, second decider) error {
	s, _ := p.splits.Get().(*split)
	if s == nil {
		s = &split{done: make(chan error, 1)}
	}
	for i := range checks {
		if seconds(&checks[i]) {
			s.second.Add(checks, i)
		} else {
			s.first.Add(checks, i)
		}
	}
	go func() { s.done <- second(ctx, s.second.Checks, s.second.Out) }()
	err := cmp.Or(first(ctx, s.first.Checks, s.first.Out), <-s.done)
	for _, part := range []*backend.Part{&s.first, &s.second} {
		part.HandOver(out)
		part.Reset()
	}
	p.splits.Put(s)
	return err
}
