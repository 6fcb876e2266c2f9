// Package limit is the request path: it matches a request's descriptors, has their hits checked, and puts the
// decisions together into a verdict. It knows no wire format and no store. Read it from [Limiter.Decide] downwards.
package limit

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// What is wrong with a request, in the words of envoyproxy/ratelimit.
var (
	ErrNoDomain      = errors.New("rate limit domain must not be empty")
	ErrNoDescriptors = errors.New("rate limit descriptor list must not be empty")
)

// ErrNoConfig means that no configuration has been applied yet, so that no verdict is possible.
var ErrNoConfig = errors.New("no rate limit configuration loaded")

// Limiter decides requests. Its methods may be called by any number of goroutines.
type Limiter struct {
	counter   backend.Counter
	algorithm descriptors.Algorithm // of overrides
	config    atomic.Pointer[descriptors.Config]
}

// New makes a limiter that counts in counter and knows no configuration yet. The algorithm is that of limits which
// requests bring with them.
func New(counter backend.Counter, algorithm descriptors.Algorithm) *Limiter {
	return &Limiter{counter: counter, algorithm: algorithm}
}

// Apply puts a configuration in force for the requests that begin from now on.
func (l *Limiter) Apply(c *descriptors.Config) { l.config.Store(c) }

// Config is the configuration in force, nil before the first.
func (l *Limiter) Config() *descriptors.Config { return l.config.Load() }

// Decide fills in the call's verdict. Its errors are those above, or the counter's.
func (l *Limiter) Decide(ctx context.Context, c *Call) error {
	config := l.config.Load()
	switch {
	case c.Domain == "":
		return ErrNoDomain
	case len(c.Descriptors) == 0:
		return ErrNoDescriptors
	case config == nil:
		return ErrNoConfig
	}
	c.Statuses = slices.Grow(c.Statuses[:0], len(c.Descriptors))[:len(c.Descriptors)]
	clear(c.Statuses)
	for i := range c.Descriptors {
		l.match(config, c, i)
	}
	if len(c.checks) > 0 {
		c.decisions = slices.Grow(c.decisions[:0], len(c.checks))[:len(c.checks)]
		if err := backend.DecideAll(ctx, l.counter, c.checks, c.decisions); err != nil {
			return err
		}
	}
	for i := range c.checks {
		c.take(i)
	}
	return nil
}

// match finds what applies to descriptor i: nothing, a rule that lets everything pass, or limits, which become a check.
func (l *Limiter) match(config *descriptors.Config, c *Call, i int) {
	d := &c.Descriptors[i]
	if !countable(d.Entries) {
		return
	}
	m := config.Match(c.Domain, d.Entries)
	if m.Found == descriptors.UnknownDomain {
		return
	}
	p := pending{descriptor: i, rule: m.Rule}
	limits := l.override(c, d)
	if limits == nil {
		switch {
		case m.Rule == nil:
			return
		case m.Rule.Unlimited:
			c.Statuses[i].Unlimited = true
			return
		}
		limits, p.shadow = m.Rule.Limits, m.Rule.Shadow
	}
	check := backend.Check{Limits: limits, Charge: charge(m.Rule, d)}
	check.Op, check.Hits = operation(d, c.Hits)
	begin := len(c.keys)
	c.keys = m.AppendKey(c.keys, c.Domain, d.Entries)
	check.Key = c.keys[begin:len(c.keys):len(c.keys)]
	c.checks = append(c.checks, check)
	c.pending = append(c.pending, p)
}

// countable says whether a descriptor has entries, each with a key. Others pass and count nothing.
func countable(d descriptors.Descriptor) bool {
	for i := range d {
		if d[i].Key == "" {
			return false
		}
	}
	return len(d) > 0
}

// override is the limit that the descriptor brings with it, nil if it brings none that makes sense.
func (l *Limiter) override(c *Call, d *Descriptor) []descriptors.Limit {
	if !d.HasOverride {
		return nil
	}
	multiplier := uint32(1)
	if d.Override.HasMultiplier {
		multiplier = d.Override.Multiplier
	}
	o, err := descriptors.NewLimit(uint64(d.Override.Requests), d.Override.Unit, multiplier, l.algorithm, 0)
	if err != nil {
		return nil
	}
	n := len(c.overrides)
	c.overrides = append(c.overrides, o)
	return c.overrides[n : n+1 : n+1]
}

// charge is the rule's word, if it has one. Hits that a descriptor brings of its own are charged whatever the verdict:
// nothing on the wire tells the cost of a request that is over from one that may still be refused.
func charge(rule *descriptors.Rule, d *Descriptor) descriptors.Charge {
	switch {
	case rule != nil && rule.Charge != descriptors.ChargeByAlgorithm:
		return rule.Charge
	case d.HasHits:
		return descriptors.ChargeAlways
	}
	return descriptors.ChargeByAlgorithm
}

// operation is what the descriptor's check does, and with how many hits.
func operation(d *Descriptor, ofRequest uint32) (backend.Op, uint64) {
	hits := max(1, uint64(ofRequest))
	if d.HasHits {
		hits = d.Hits
	}
	switch {
	case d.Refund:
		return backend.Refund, hits
	case hits == 0:
		return backend.Look, 0
	}
	return backend.Count, hits
}

// take puts the decision on check i into the verdict.
func (c *Call) take(i int) {
	p, d := &c.pending[i], &c.decisions[i]
	s := &c.Statuses[p.descriptor]
	s.Limit = &c.checks[i].Limits[d.Strictest]
	s.Remaining, s.ResetIn = d.Remaining, d.ResetIn
	s.Over = !d.Allowed && !p.shadow
	if !s.Over {
		return
	}
	c.Over = true
	if c.Message == "" && p.rule != nil {
		c.Message = p.rule.Message
	}
}
