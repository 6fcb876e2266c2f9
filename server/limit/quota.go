package limit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/hits"
)

// Quota is what one configuration says about hits that a caller lets through by itself, and reports later.
type Quota struct {
	Domain     string
	Descriptor descriptors.Descriptor // in the order of the rule
	Found      descriptors.Found
	Rule       *descriptors.Rule // nil if none matches
	Enforced   bool              // the rule has limits, and no shadow mode lets pass what is over them
	Key        string            // under which the rule counts; "" without limits

	rules *rules
}

// Quota finds the rule for entries without an order; false before the first configuration.
func (l *Limiter) Quota(domain string, set descriptors.Descriptor) (q Quota, configured bool) {
	r := l.inForce.Load()
	if r == nil {
		return q, false
	}
	order, m := r.config.MatchSet(domain, set)
	q = Quota{Domain: domain, Descriptor: order, Found: m.Found, Rule: m.Rule, rules: r}
	if m.Rule != nil && !m.Rule.Unlimited {
		q.Enforced = !m.Rule.Shadow && !l.options.Shadow
		q.Key = string(m.AppendKey(nil, domain, order))
	}
	return q, true
}

// Path returns the rule's path, history.Unmatched without one.
func (q *Quota) Path() string { return (&Status{Rule: q.Rule}).Path() }

// Current reports whether the quota is that of the configuration in force.
func (l *Limiter) Current(q *Quota) bool { return l.inForce.Load() == q.rules }

// Usage is what a caller reports of a quota.
type Usage struct {
	Quota
	Allowed, Denied uint64 // hits
	At              time.Time
}

// Report charges hits that were let through, whatever the limit says, and records them as within, and those that were
// denied as over. A shadow rule's are within or over as its limits have it. While the store is away all are degraded.
func (l *Limiter) Report(ctx context.Context, usages []Usage) {
	for some := range slices.Chunk(usages, MaxDescriptors) {
		var checks []backend.Check
		var of []*Usage
		for i := range some {
			u := &some[i]
			switch {
			case u.Allowed+u.Denied == 0:
			case u.Key == "":
				if u.Found == descriptors.UnknownDomain {
					u.rules.hits.CountUnknownDomain()
				}
				u.rules.hits.Counter(u.Rule, u.Domain).RecordUnlimited(u.Rule, u.Descriptor, u.Allowed+u.Denied)
			case u.Allowed == 0:
				checks, of = append(checks, u.check(backend.Look, 0)), append(of, u)
			default:
				checks, of = append(checks, u.check(backend.Count, u.Allowed)), append(of, u)
			}
		}
		if len(checks) == 0 {
			continue
		}
		decisions := make([]backend.Decision, len(checks))
		l.ask(ctx, checks, decisions)
		for i := range checks {
			l.recordUsage(of[i], &checks[i], &decisions[i])
		}
	}
}

// Room tells what remains of some limits of each quota, without counting. Limits of nil are all of the rule's.
func (l *Limiter) Room(ctx context.Context, quotas []Quota, limits [][]descriptors.Limit) []backend.Decision {
	checks, decisions := make([]backend.Check, len(quotas)), make([]backend.Decision, len(quotas))
	for i := range quotas {
		checks[i] = quotas[i].check(backend.Look, 0)
		if limits[i] != nil {
			checks[i].Limits = limits[i]
		}
	}
	for from := 0; from < len(checks); from += MaxDescriptors {
		to := min(from+MaxDescriptors, len(checks))
		l.ask(ctx, checks[from:to], decisions[from:to])
	}
	return decisions
}

func (q *Quota) check(op backend.Op, n uint64) backend.Check {
	return backend.Check{Key: []byte(q.Key), Limits: q.Rule.Limits, Op: op, Hits: n, Charge: descriptors.ChargeAlways,
		OnFailure: q.Rule.FailurePolicy()}
}

// recordUsage records a report, given the check that charged it, or looked if nothing was let through, and its decision.
func (l *Limiter) recordUsage(u *Usage, check *backend.Check, d *backend.Decision) {
	event := hits.Event{Rule: u.Rule, Descriptor: u.Descriptor, Key: l.recorder.Key(check.Key), At: u.At, Check: check, Decision: d}
	modes := hits.Modes{NearRatio: l.options.NearRatio, Shadow: u.Rule.Shadow, Passes: l.options.Shadow}
	counter := u.rules.hits.Counter(u.Rule, u.Domain)
	check.Op = backend.Count
	if d.Err != nil || d.Source.Degraded() {
		l.degraded[d.Reason][cmp.Or(d.Policy, descriptors.PolicyError)].Add(1)
		check.Hits = u.Allowed + u.Denied
		counter.Record(&event, modes)
		return
	}
	if u.Allowed > 0 {
		d.Allowed = d.Allowed || u.Enforced // it has passed
		counter.Record(&event, modes)
	}
	if u.Denied == 0 {
		return
	}
	d.Allowed, check.Hits, check.Charge = false, u.Denied, descriptors.ChargeAdmitted
	counter.Record(&event, modes)
	u.rules.denials.Note(u.Rule, u.Domain, !u.Enforced, &denials.Denial{At: u.At, Limit: check.Limits[d.Strictest],
		Quota: u.Rule.Quota, Hits: u.Denied, Count: d.Before, RetryIn: d.RetryIn, Source: d.Source}, u.Descriptor)
}
