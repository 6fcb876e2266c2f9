// Package limit is the request path: it matches a request's descriptors, has their hits checked, and puts the
// decisions together into a verdict. It knows no wire format and no store. Read it from [Limiter.Decide] downwards.
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

// Why there is no verdict. The first two are wrong with the request, and have the words of envoyproxy/ratelimit.
var (
	ErrNoDomain      = errors.New("rate limit domain must not be empty")
	ErrNoDescriptors = errors.New("rate limit descriptor list must not be empty")
	ErrNoConfig      = errors.New("no rate limit configuration loaded")
	// ErrBrokenDomain means that the files of a domain have errors and never were good.
	ErrBrokenDomain = errors.New("the rate limit configuration of the domain has errors and never was good")
)

// MaxDescriptors is how many descriptors a request may have: a store is asked about all of them at once. A request that
// has more is too large, see [Verdict].
const MaxDescriptors = backend.MaxChecks

// MaxEntries is how many entries a descriptor may have: rules are no deeper.
const MaxEntries = 100

// Limiter decides requests. Its methods may be called by any number of goroutines.
type Limiter struct {
	counter     backend.Counter
	options     Options
	recorder    *hits.Recorder
	rates       *rates // nil without leases
	applyMu     sync.Mutex
	inForce     atomic.Pointer[rules]
	counts      *byrule.Registry[ruleCounts]
	degraded    [backend.Reasons][descriptors.Policies]atomic.Uint64 // decisions that were made while no store decides
	unknownLog  throttle.Lines                                       // logs unknown domains
	tooLargeLog throttle.Lines                                       // logs requests that are too large
	invalidLog  throttle.Lines                                       // logs requests without a domain or a descriptor

	// Refunds counts what refused requests gave back.
	Refunds Refunds
	// Denials keeps what is refused, and what shadow mode lets through.
	Denials *denials.Recorder
}

// Options hold for all requests, whatever the configuration says.
type Options struct {
	// Algorithm is that of limits which requests bring with them.
	Algorithm descriptors.Algorithm
	// Shadow lets every request pass. The statuses of its descriptors still tell what would have refused it.
	Shadow bool
	// Quota makes each descriptor a quota that no unlimited rule matches, those without any rule included.
	Quota bool
	// RefundOthers charges a refused request only where it is over: it gives back all that its others were charged.
	RefundOthers bool
	// NearRatio is the share of a limit above which hits are near it.
	NearRatio float32
	// CanLease: the store grants hits of busy keys beforehand where a rule says lease: true; it is told how many a second
	// a key has here.
	CanLease bool
	// Leases, beside CanLease, has it do so for all rules that say nothing of it.
	Leases bool
	// Unrecorded keeps neither what became of hits nor denials: a simulation has its own results, and costs a third less.
	Unrecorded bool
	// Log is told, once a minute at most, of a domain that is asked for and not configured, of a request that is too large,
	// and of an invalid one; nil tells nobody.
	Log *slog.Logger
}

// rules are a configuration, and where is kept what becomes of each rule's requests.
type rules struct {
	config  *descriptors.Config
	hits    *hits.Table
	denials *denials.Table
	counts  *byrule.Table[ruleCounts]
}

// New makes a limiter that counts in counter, records what became of each rule's hits, and knows no configuration yet.
func New(counter backend.Counter, o Options, recorder *hits.Recorder) *Limiter {
	l := &Limiter{counter: counter, options: o, recorder: recorder, counts: byrule.New[ruleCounts](nil), Denials: denials.New()}
	if o.CanLease {
		l.rates = new(rates)
	}
	return l
}

// Apply puts a configuration in force for the requests that begin from now on.
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

// Decide fills in the call's verdict. Its errors are those above, or why a check has no answer; then there is no
// verdict but its Result.
func (l *Limiter) Decide(ctx context.Context, c *Call) error {
	r := l.inForce.Load()
	place, counted := 0, c.Domain != "" && r != nil
	if counted {
		place = r.config.Place(c.Domain, nil)
		c.UnknownDomain = place == 0
	}
	var err error
	if c.Result, err = reject(r, c); err == nil {
		err = l.decide(ctx, r, c)
	}
	if counted {
		r.counts.At(place)[c.Counted()].Add(1)
	}
	if c.Result == Invalid {
		l.logInvalid(c, err)
	}
	if c.UnknownDomain && l.options.Log != nil {
		l.logUnknown(c.Domain, r.config)
	}
	return err
}

// logUnknown logs a domain that no file configures: a misspelt one passes everything.
func (l *Limiter) logUnknown(domain string, config *descriptors.Config) {
	l.unknownLog.Warn(l.options.Log, "a domain is asked for that no file configures, so that its requests pass uncounted: correct the domain of "+
		"Envoy's filter, or write a file for it", "domain", descriptors.Abbreviate(domain), "reason", config.Explain(domain, nil).Reason,
		"counted_in", `weir_domain_requests_total{domain="__unknown__"}`)
}

// reject returns why there is no verdict on a call, OK if there will be one. r is nil before the first configuration.
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
		l.ask(ctx, c.checks, c.decisions)
	}
	var undecided error
	for i := range c.checks {
		l.record(c, i)
		if !c.pending[i].shadow && !l.options.Shadow { // which refuse nothing, whatever a store would say
			undecided = cmp.Or(undecided, c.decisions[i].Err)
		}
	}
	l.conclude(c)
	if !l.options.Unrecorded {
		l.keep(c)
	}
	if c.Result != OverLimit { // one denial is enough, whatever the others would be
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

// ask has the store decide checks. Why it decides none is then the answer to each.
func (l *Limiter) ask(ctx context.Context, checks []backend.Check, decisions []backend.Decision) {
	if err := l.counter.Decide(ctx, checks, decisions); err != nil {
		for i := range checks {
			decisions[i].Err = err
		}
	}
}

// conclude makes the answer for the whole request from those for its descriptors.
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

// refusal returns how a request ends that is over.
func (l *Limiter) refusal() Result {
	if l.options.Shadow {
		return Shadowed
	}
	return OverLimit
}

// refused reports whether the statuses refuse the request, before Options.Shadow, and whether all quotas are over. One
// that is over refuses it, a quota only together with all others.
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

// match finds what applies to a descriptor alone, and collects the names of the limits that its rule replaces.
func (l *Limiter) match(c *Call, d *Descriptor) {
	m := match{Match: c.rules.find(c.Domain, d.Entries)}
	if d.HasOverride && m.Found != descriptors.UnknownDomain {
		m.own = l.override(c, d)
	}
	if c.UnknownDomain {
		l.recorder.CountUnknownDomain()
	}
	if m.Rule != nil && m.own == nil {
		for _, name := range m.Rule.Replaces {
			if !slices.Contains(c.replaced, name) { // so that a long request does not make a long list
				c.replaced = append(c.replaced, name)
			}
		}
	}
	c.matches = append(c.matches, m)
}

// unreplaced returns those of some limits that no name replaces.
func (c *Call) unreplaced(limits []descriptors.Limit) []descriptors.Limit {
	n := len(c.ownLimits)
	for i := range limits {
		if !limits[i].ReplacedBy(c.replaced) {
			c.ownLimits = append(c.ownLimits, limits[i])
		}
	}
	return c.ownLimits[n:len(c.ownLimits):len(c.ownLimits)]
}

// check makes a check of descriptor i, unless nothing limits it.
func (l *Limiter) check(c *Call, i int) {
	d, s, m := &c.Descriptors[i], &c.Statuses[i], &c.matches[i]
	s.Override, s.Quota = m.own != nil, l.options.Quota
	replaced := m.Rule != nil && !s.Override && len(c.replaced) > 0
	if replaced && m.Rule.ReplacedBy(c.replaced) {
		return
	}
	s.Rule = m.Rule
	op, n := operation(d, c.Hits)
	p := pending{descriptor: i, place: c.rules.config.Place(c.Domain, m.Rule),
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
			c.rules.hits.At(p.place).RecordUnlimited(m.Rule, d.Entries, n)
		}
		return
	default:
		check.Limits, p.shadow = m.Rule.Limits, m.Rule.Shadow
		s.Quota, s.Metadata = s.Quota || m.Rule.Quota, m.Rule.Metadata
	}
	if replaced { // in part
		check.Limits = c.unreplaced(check.Limits)
	}
	check.Enforced, check.Leases = !p.shadow && !l.options.Shadow && !s.Quota, check.Leases && l.options.CanLease
	l.addCheck(c, keyed, p, check)
}

// addCheck adds a check of a descriptor, under the key of a match.
func (l *Limiter) addCheck(c *Call, keyed descriptors.Match, p pending, check backend.Check) {
	begin := len(c.keys)
	c.keys = keyed.AppendKey(c.keys, c.Domain, c.Descriptors[p.descriptor].Entries)
	check.Key = c.keys[begin:len(c.keys):len(c.keys)]
	p.key = l.recorder.Key(check.Key)
	if check.Leases && check.Op == backend.Count {
		first := &check.Limits[0] // one key may be asked for under several limits
		key := (p.key^hits.Key(first.Requests))*0x9e3779b97f4a7c15 ^ hits.Key(first.Window)
		check.Rate = l.rates.add(key, min(check.Hits, first.Capacity()), c.At) // more is denied
	}
	c.checks, c.pending = append(c.checks, check), append(c.pending, p)
}

// find matches a descriptor. One without entries, or with one that has no key, passes whatever the configuration says.
func (r *rules) find(domain string, d descriptors.Descriptor) descriptors.Match {
	if len(d) == 0 || slices.ContainsFunc(d, func(e descriptors.Entry) bool { return e.Key == "" }) {
		return descriptors.Match{}
	}
	return r.config.Match(domain, d)
}

// override returns the limit that the descriptor brings with it, nil if it brings none that makes sense.
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

// chargeOf returns the rule's charge, if it has one. Hits that a descriptor brings of its own are charged whatever the
// verdict: nothing on the wire tells the cost of a request that is over from one that may still be refused.
func chargeOf(rule *descriptors.Rule, d *Descriptor) descriptors.Charge {
	switch {
	case rule != nil && rule.Charge != descriptors.ChargeByAlgorithm:
		return rule.Charge
	case d.HasHits:
		return descriptors.ChargeAlways
	}
	return descriptors.ChargeByAlgorithm
}

// operation returns what the descriptor's check does, and with how many hits.
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
