package limit

import (
	"cmp"
	"context"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/hits"
)

// Quota is the rule for hits that a caller admits by itself and reports later.
type Quota struct {
	Domain     string
	Descriptor descriptors.Descriptor // in the rule's order
	Kind       descriptors.MatchKind
	Rule       *descriptors.Rule // nil if none matches
	Enforced   bool              // the rule has limits, and is not in shadow mode
	Key        string            // of the rule's counters; "" without limits

	rules *rules
}

// Quota finds the rule for entries in any order; false before the first configuration.
func (l *Limiter) Quota(domain string, set descriptors.Descriptor) (q Quota, configured bool) {
	r := l.inForce.Load()
	if r == nil {
		return q, false
	}
	order, m := r.config.MatchSet(domain, set)
	q = Quota{Domain: domain, Descriptor: order, Kind: m.Kind, Rule: m.Rule, rules: r}
	if m.Rule != nil && !m.Rule.Unlimited {
		q.Enforced = !m.Rule.Shadow && !l.options.Shadow
		q.Key = string(m.AppendKey(nil, domain, order))
	}
	return q, true
}

// Path returns the path of the rule, descriptors.UnmatchedPath if there is none.
func (q *Quota) Path() string { return (&Status{Rule: q.Rule}).Path() }

// Current reports whether the quota was found in the configuration in force.
func (l *Limiter) Current(q *Quota) bool { return l.inForce.Load() == q.rules }

// Usage is what a caller reports about a quota.
type Usage struct {
	Quota
	Allowed, Denied uint64 // hits
	At              time.Time
}

// Report charges admitted hits, whatever the limit, and records them as within; denied hits are recorded as over. For
// a rule in shadow mode, its limits decide which are within and which over. While the store is away, all are degraded.
func (l *Limiter) Report(ctx context.Context, usages []Usage) {
	var checks []backend.Check
	var of []*Usage
	for i := range usages {
		u, op := &usages[i], backend.Count
		switch {
		case u.Allowed+u.Denied == 0:
			continue
		case u.Key == "":
			if u.Kind == descriptors.UnknownDomain {
				l.recorder.CountUnknownDomain()
			}
			u.rules.hits.Counter(u.Rule, u.Domain).RecordUnlimited(u.Rule, u.Descriptor, u.Allowed+u.Denied)
			continue
		case u.Allowed == 0:
			op = backend.Look
		}
		checks, of = append(checks, u.check(op, u.Allowed)), append(of, u)
	}
	decisions := l.decideBatches(ctx, checks)
	for i := range checks {
		l.recordUsage(of[i], &checks[i], &decisions[i])
	}
}

// Remaining has the remaining hits under some limits of a quota's rule.
type Remaining struct {
	Quota
	Limits []descriptors.Limit
	backend.Decision
}

// Remaining fills in the remaining hits, without counting.
func (l *Limiter) Remaining(ctx context.Context, remaining []Remaining) {
	checks := make([]backend.Check, len(remaining))
	for i := range remaining {
		checks[i] = remaining[i].check(backend.Look, 0)
		checks[i].Limits = remaining[i].Limits
	}
	for i, d := range l.decideBatches(ctx, checks) {
		remaining[i].Decision = d
	}
}

// decideBatches has the store decide any number of checks, in batches of MaxDescriptors.
func (l *Limiter) decideBatches(ctx context.Context, checks []backend.Check) []backend.Decision {
	decisions := make([]backend.Decision, len(checks))
	for from := 0; from < len(checks); from += MaxDescriptors {
		to := min(from+MaxDescriptors, len(checks))
		l.decideChecks(ctx, checks[from:to], decisions[from:to])
	}
	return decisions
}

func (q *Quota) check(op backend.Op, n uint64) backend.Check {
	return backend.Check{Key: []byte(q.Key), Limits: q.Rule.Limits, Op: op, Hits: n, Charge: descriptors.ChargeAlways,
		OnFailure: q.Rule.OnFailure}
}

// recordUsage records a report, given its check and decision. The check charged the admitted hits, or looked if there
// were none.
func (l *Limiter) recordUsage(u *Usage, check *backend.Check, d *backend.Decision) {
	event := hits.Event{Rule: u.Rule, Descriptor: u.Descriptor, Key: l.recorder.Key(check.Key), At: u.At, Check: check, Decision: d}
	modes := hits.Modes{NearRatio: l.options.NearRatio, Shadow: u.Rule.Shadow, Passing: l.options.Shadow}
	counter := u.rules.hits.Counter(u.Rule, u.Domain)
	check.Op = backend.Count
	if d.Err != nil || d.Source.Degraded() {
		l.degraded[d.Reason][cmp.Or(d.Policy, descriptors.PolicyError)].Add(1)
		check.Hits = u.Allowed + u.Denied
		counter.Record(&event, modes)
		return
	}
	if u.Allowed > 0 {
		d.Allowed = d.Allowed || u.Enforced // the caller has let it pass
		counter.Record(&event, modes)
	}
	if u.Denied == 0 {
		return
	}
	d.Allowed, check.Hits, check.Charge = false, u.Denied, descriptors.ChargeAdmitted
	counter.Record(&event, modes)
	denial := denials.FromCheck(u.At, check, d)
	denial.Quota = u.Rule.Quota
	u.rules.denials.Record(u.rules.config.RuleIndex(u.Domain, u.Rule), !u.Enforced, &denial, u.Descriptor)
}
