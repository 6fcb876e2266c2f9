// Package limit is the request path: it matches a request's descriptors with rules, asks the store about their hits,
// and combines the decisions into a verdict. It knows no wire format and no store. Read it from [Limiter.Decide]
// downwards.
package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/throttle"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/hits"
)

// Errors without a verdict. The first two are the request's fault, in the words of envoyproxy/ratelimit.
var (
	ErrNoDomain      = errors.New("rate limit domain must not be empty")
	ErrNoDescriptors = errors.New("rate limit descriptor list must not be empty")
	ErrNoConfig      = errors.New("no rate limit configuration loaded")
	// ErrBrokenDomain means that a domain's files have errors, and no version of them was ever valid.
	ErrBrokenDomain = errors.New("the rate limit configuration of the domain has errors and never was good")
)

// MaxDescriptors is how many descriptors a request may have: the store gets all of them in one call. A request with
// more is too large, see [Verdict].
const MaxDescriptors = backend.MaxChecks

// MaxEntries is how many entries a descriptor may have: rules do not nest deeper.
const MaxEntries = 100

// Limiter decides requests. Its methods may be called by any number of goroutines.
type Limiter struct {
	counter  backend.Counter
	options  Options
	recorder *hits.Recorder
	rates    *rates // nil without leases
	applyMu  sync.Mutex
	inForce  atomic.Pointer[rules]
	counts   *byrule.Registry[ruleCounts]
	degraded [backend.Reasons][descriptors.Policies]atomic.Uint64 // decisions made without a store
	logLines throttle.Lines                                       // about invalid requests

	// Refunds counts what refused requests gave back.
	Refunds Refunds
	// Denials records the denials, also those that shadow mode prevented.
	Denials *denials.Recorder
}

// Options apply to all requests, whatever the configuration.
type Options struct {
	// Algorithm is used for overrides.
	Algorithm descriptors.Algorithm
	// Shadow lets every request pass. The statuses of its descriptors still say which would have refused it.
	Shadow bool
	// Quota makes each descriptor a quota, also one without a rule, except where an unlimited rule matches.
	Quota bool
	// RefundOthers charges a refused request only where it is over: the hits of its other descriptors are given back.
	RefundOthers bool
	// NearRatio is the share of a limit, from 0 to 1, above which hits count as near it.
	NearRatio float32
	// CanLease means that the store grants leases for busy keys of rules with lease: true. Checks then have the rate of
	// their key in this process.
	CanLease bool
	// Leases is the default for rules that do not set lease. It needs CanLease.
	Leases bool
	// Unrecorded turns off counting of hits and denials: a simulation has its own results, and costs a third less.
	Unrecorded bool
	// Log gets a line, at most one a minute, for each of unknown domains, too large and invalid requests; nil logs
	// nothing.
	Log *slog.Logger
}

// rules is the configuration in force with its per-rule counters and denials.
type rules struct {
	config  *descriptors.Config
	hits    *hits.Table
	denials *denials.Table
	counts  *byrule.Table[ruleCounts]
}

// New makes a limiter that counts in counter and records hits in recorder. It has no configuration yet.
func New(counter backend.Counter, o Options, recorder *hits.Recorder) *Limiter {
	l := &Limiter{counter: counter, options: o, recorder: recorder, counts: byrule.New[ruleCounts](nil), Denials: denials.New()}
	if o.CanLease {
		l.rates = new(rates)
	}
	return l
}

// Apply puts a configuration in force. Requests that have begun keep the old one.
func (l *Limiter) Apply(c *descriptors.Config) {
	l.applyMu.Lock()
	defer l.applyMu.Unlock()
	l.inForce.Store(&rules{c, l.recorder.Table(c), l.Denials.Table(c), l.counts.Table(c)})
	l.counts.Sweep(time.Now())
}

// Config returns the configuration in force, nil before the first.
func (l *Limiter) Config() *descriptors.Config {
	if r := l.inForce.Load(); r != nil {
		return r.config
	}
	return nil
}

// Decide fills in the call's verdict. Its errors are those above, or the store's; then only the verdict's Result is
// set.
func (l *Limiter) Decide(ctx context.Context, c *Call) error {
	r := l.inForce.Load()
	index, counted := 0, c.Domain != "" && r != nil
	if counted {
		index = r.config.RuleIndex(c.Domain, nil)
		c.UnknownDomain = index == 0
	}
	var err error
	if c.Result, err = reject(r, c); err == nil {
		err = l.decide(ctx, r, c)
	}
	if counted {
		r.counts.At(index)[c.Counted()].Add(1)
	}
	if c.Result == Invalid {
		l.logInvalid(c, err)
	}
	if c.UnknownDomain {
		l.logUnknown(c.Domain, r.config)
	}
	return err
}

// logUnknown logs a domain that no file configures. If it is a typo, its requests pass unlimited.
func (l *Limiter) logUnknown(domain string, config *descriptors.Config) {
	const message = "unknown domain: its requests pass uncounted"
	if l.options.Log == nil || !l.logLines.Due(message, "", time.Minute) { // the reason compares all domains
		return
	}
	l.options.Log.Warn(message, "domain", descriptors.Abbreviate(domain),
		"reason", config.Explain(domain, nil).Reason, "remedy", "correct the domain of Envoy's filter, or write a file for it",
		"counted_in", `weir_domain_requests_total{domain="__unknown__"}`)
}

// reject returns OK if the call can be decided, or else the result and the reason. r is nil before the first
// configuration.
func reject(r *rules, c *Call) (Result, error) {
	switch {
	case c.Domain == "":
		return Invalid, ErrNoDomain
	case len(c.Descriptors) == 0 && !c.Cut:
		return Invalid, ErrNoDescriptors
	case r == nil:
		return Unconfigured, ErrNoConfig
	case r.config.Broken(c.Domain):
		return Unconfigured, fmt.Errorf("%w: domain %.100q", ErrBrokenDomain, c.Domain)
	}
	return OK, nil
}

func (l *Limiter) decide(ctx context.Context, r *rules, c *Call) error {
	if tooLarge := c.tooLarge(); tooLarge != "" {
		l.refuseTooLarge(r, c, tooLarge)
		return nil
	}
	c.rules = r
	c.Statuses = slices.Grow(c.Statuses[:0], len(c.Descriptors))[:len(c.Descriptors)]
	clear(c.Statuses)
	for i := range c.Descriptors {
		l.match(c, &c.Descriptors[i])
	}
	for i := range c.Descriptors {
		l.check(c, i)
	}
	c.decisions = slices.Grow(c.decisions[:0], len(c.checks))[:len(c.checks)]
	if len(c.checks) > 0 {
		l.decideChecks(ctx, c.checks, c.decisions)
	}
	var undecided error
	for i := range c.checks {
		l.setStatus(c, i)
		if !c.pending[i].shadow && !l.options.Shadow { // these refuse nothing, so their errors do not matter
			undecided = cmp.Or(undecided, c.decisions[i].Err)
		}
	}
	l.conclude(c)
	if !l.options.Unrecorded {
		l.record(c)
	}
	if c.Result != OverLimit { // one denial is enough, whatever the undecided checks would say
		if undecided != nil {
			c.Result = Unavailable
		}
		return undecided
	}
	if l.options.RefundOthers || r.config.RefundsOnDeny(c.Domain) {
		l.refund(ctx, c)
	}
	return nil
}

// decideChecks has the store decide checks. An error of the store becomes the Err of each decision.
func (l *Limiter) decideChecks(ctx context.Context, checks []backend.Check, decisions []backend.Decision) {
	if err := l.counter.Decide(ctx, checks, decisions); err != nil {
		for i := range checks {
			decisions[i].Err = err
		}
	}
}

// conclude combines the statuses of the descriptors into the answer for the request.
func (l *Limiter) conclude(c *Call) {
	refused, allQuotas := refused(c.Statuses)
	for i := range c.Statuses {
		if s := &c.Statuses[i]; c.Message == "" && s.Outcome == Over && s.Rule != nil && (allQuotas || !s.Quota) {
			c.Message = s.Rule.Message
		}
	}
	if refused {
		c.Result = l.refusal()
	}
}

// refusal returns the result of a request that is over.
func (l *Limiter) refusal() Result {
	if l.options.Shadow {
		return Shadowed
	}
	return OverLimit
}

// refused reports whether the statuses refuse the request, leaving Options.Shadow aside, and whether all quotas are
// over. A descriptor that is over refuses it; a quota does so only if all quotas are over.
func refused(statuses []Status) (refused, allQuotas bool) {
	quotaOver, quotaPasses := false, false
	for i := range statuses {
		s := &statuses[i]
		switch {
		case !s.Quota:
			refused = refused || s.Outcome == Over
		case s.Outcome == Over:
			quotaOver = true
		default:
			quotaPasses = true
		}
	}
	allQuotas = quotaOver && !quotaPasses
	return refused || allQuotas, allQuotas
}

// match finds what applies to one descriptor, and collects the names of limits that its rule replaces in others.
func (l *Limiter) match(c *Call, d *Descriptor) {
	m := match{Match: c.rules.find(c.Domain, d.Entries)}
	if d.HasOverride && m.Kind != descriptors.UnknownDomain {
		m.own = l.override(c, d)
	}
	if c.UnknownDomain {
		l.recorder.CountUnknownDomain()
	}
	if m.Rule != nil && m.own == nil {
		for _, name := range m.Rule.Replaces {
			if !slices.Contains(c.replaced, name) { // keeps the list short for long requests
				c.replaced = append(c.replaced, name)
			}
		}
	}
	c.matches = append(c.matches, m)
}

// dropReplaced returns the limits that no other descriptor replaces.
func (c *Call) dropReplaced(limits []descriptors.Limit) []descriptors.Limit {
	n := len(c.ownLimits)
	for i := range limits {
		if !limits[i].ReplacedBy(c.replaced) {
			c.ownLimits = append(c.ownLimits, limits[i])
		}
	}
	return c.ownLimits[n:len(c.ownLimits):len(c.ownLimits)]
}

// check adds a check for descriptor i, if a limit applies to it.
func (l *Limiter) check(c *Call, i int) {
	d, s, m := &c.Descriptors[i], &c.Statuses[i], &c.matches[i]
	s.Override, s.Quota = m.own != nil, l.options.Quota
	replaced := m.Rule != nil && !s.Override && len(c.replaced) > 0
	if replaced && m.Rule.ReplacedBy(c.replaced) {
		return
	}
	s.Rule = m.Rule
	op, n := operation(d, c.Hits)
	p := pending{descriptor: i, index: c.rules.config.RuleIndex(c.Domain, m.Rule),
		recorded: op == backend.Count || op == backend.Refund && l.recorder.CountsRefunds()}
	check := backend.Check{Limits: m.own, Op: op, Hits: n, Charge: chargeOf(m.Rule, d), Leases: l.options.Leases}
	if m.Rule != nil {
		check.OnFailure, check.Leases = m.Rule.OnFailure, m.Rule.Leases(l.options.Leases)
	}
	keyed := m.Match
	switch {
	case s.Override:
		keyed = m.ForOverride(&m.own[0], check.Charge)
	case m.Rule == nil || m.Rule.Unlimited:
		if m.Rule != nil {
			s.Outcome, s.Quota = Unlimited, false
		}
		if op == backend.Count {
			c.rules.hits.At(p.index).RecordUnlimited(m.Rule, d.Entries, n)
		}
		return
	default:
		check.Limits, p.shadow = m.Rule.Limits, m.Rule.Shadow
		s.Quota, s.Metadata = s.Quota || m.Rule.Quota, m.Rule.Metadata
	}
	if replaced { // in part
		check.Limits = c.dropReplaced(check.Limits)
	}
	check.Enforced, check.Leases = !p.shadow && !l.options.Shadow && !s.Quota, check.Leases && l.options.CanLease
	l.addCheck(c, keyed, p, check)
}

// addCheck adds a check for a descriptor, with the key of its match.
func (l *Limiter) addCheck(c *Call, keyed descriptors.Match, p pending, check backend.Check) {
	begin := len(c.keys)
	c.keys = keyed.AppendKey(c.keys, c.Domain, c.Descriptors[p.descriptor].Entries)
	check.Key = c.keys[begin:len(c.keys):len(c.keys)]
	p.key = l.recorder.Key(check.Key)
	if check.Leases && check.Op == backend.Count {
		first := &check.Limits[0] // a key may be used with several limits
		key := (p.key^hits.Key(first.Requests))*0x9e3779b97f4a7c15 ^ hits.Key(first.Window)
		check.Rate = l.rates.add(key, min(check.Hits, first.Capacity()), c.At) // hits above the capacity are denied
	}
	c.checks, c.pending = append(c.checks, check), append(c.pending, p)
}

// find matches a descriptor. A descriptor without entries, or with an empty key, matches no rule and passes.
func (r *rules) find(domain string, d descriptors.Descriptor) descriptors.Match {
	if len(d) == 0 || slices.ContainsFunc(d, func(e descriptors.Entry) bool { return e.Key == "" }) {
		return descriptors.Match{}
	}
	return r.config.Match(domain, d)
}

// override returns the limit that the descriptor carries, nil if it is invalid.
func (l *Limiter) override(c *Call, d *Descriptor) []descriptors.Limit {
	multiplier := uint32(1)
	if d.Override.HasMultiplier {
		multiplier = d.Override.Multiplier
	}
	o, err := descriptors.NewLimit(uint64(d.Override.Requests), d.Override.Unit, multiplier, l.options.Algorithm, 0)
	if err != nil {
		return nil
	}
	n := len(c.ownLimits)
	c.ownLimits = append(c.ownLimits, o)
	return c.ownLimits[n : n+1 : n+1]
}

// chargeOf returns when the descriptor is charged: as its rule says; always if it has its own hits, because the wire
// cannot tell a finished request's cost from a request that may still be refused; else as the algorithm does.
func chargeOf(rule *descriptors.Rule, d *Descriptor) descriptors.Charge {
	switch {
	case rule != nil && rule.Charge != descriptors.ChargeByAlgorithm:
		return rule.Charge
	case d.HasHits:
		return descriptors.ChargeAlways
	}
	return descriptors.ChargeByAlgorithm
}

// operation returns the operation of the descriptor's check, and its hits.
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
