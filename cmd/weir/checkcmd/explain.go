package checkcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

const nothingRight = "The files of all domains have errors: every request is answered UNAVAILABLE."

// printExplanations prints how each descriptor is matched, and its rule; then the result of a request with all
// descriptors.
func (c *Command) printExplanations(out io.Writer, f *findings) error {
	all, err := c.explanations(f.config)
	if err != nil {
		return err
	}
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	for i, e := range all {
		if i > 0 {
			e.DomainWhere = "" // the copy does not name the domain again
			fmt.Fprintln(t)
		}
		fmt.Fprint(t, e)
		if e.Match.Rule != nil {
			f.printRule(t, &e)
		}
	}
	if len(all) > 1 {
		fmt.Fprintln(t)
		for _, line := range f.requestLines(all) {
			fmt.Fprintln(t, line)
		}
	}
	return cmp.Or(t.Flush(), exit(all))
}

// explanations returns the explanations for --explain: one for each descriptor, or only one if all are the same, as no
// file of the domain is valid. The domain is that of --domain, or the only one.
func (c *Command) explanations(config *descriptors.Config) (all []descriptors.Explanation, err error) {
	if config == nil {
		broken := descriptors.Match{Kind: descriptors.BrokenDomain}
		return []descriptors.Explanation{{Domain: c.Domain, Match: broken, Reason: nothingRight}}, nil
	}
	names := slices.Concat(config.DomainNames(), config.BrokenNames())
	if c.Domain == "" && len(names) != 1 {
		return nil, fmt.Errorf("--explain needs --domain, one of %s", descriptors.Abbreviate(names...))
	}
	domain := cmp.Or(append([]string{c.Domain}, names...)...)
	for _, text := range descriptors.SplitRequest(strings.Join(c.Explain, " + ")) {
		d, err := descriptors.ParseDescriptor(text)
		if err != nil {
			return nil, fmt.Errorf("--explain: %w", err)
		}
		all = append(all, config.Explain(domain, d))
	}
	if all[0].DomainWhere == "" {
		all = all[:1]
	}
	return all, nil
}

// exit returns the command's exit after explanations: Failed if no file names the domain.
func exit(all []descriptors.Explanation) error {
	if all[0].Match.Kind == descriptors.UnknownDomain {
		return terminal.ExitFailed
	}
	return nil
}

// table prints two columns.
type table struct{ *tabwriter.Writer }

func (t table) add(about, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\t", " ") // a tab would end the column
	fmt.Fprintf(t, "%s\t%s\n", about, text)
}

// printRule prints the rule of an explanation with all its settings.
func (f *findings) printRule(t table, e *descriptors.Explanation) {
	r := e.Match.Rule
	for i := range r.Limits {
		t.add("limit", "%s", describeLimit(r, &r.Limits[i]))
		_, why := r.Bound(&r.Limits[i])
		t.add("bound", "%s", why)
	}
	if r.Unlimited {
		t.add("limit", "none: unlimited")
	} else {
		f.printCounting(t, e)
	}
	if len(r.Replaces) > 0 {
		t.add("replaces", "%s, where a request matches them as well", quotedList(r.Replaces))
	}
	if r.Shadow {
		t.add("shadow", "counted, never denied")
	}
	if r.Quota {
		t.add("quota", "denied only when all quotas of a request are over")
	}
	if r.Lease != nil {
		t.add("lease", "%t: %s", *r.Lease, map[bool]string{
			true: "each replica takes a second's hits of a busy key at once", false: "each hit is asked of the store"}[*r.Lease])
	}
	if r.Message != "" {
		t.add("message", "%q", r.Message)
	}
	if r.Metadata != nil {
		var text strings.Builder
		_ = terminal.WriteJSON(&text, r.Metadata) // metadata are JSON values
		t.add("metadata", "%s", strings.TrimSpace(text.String()))
	}
	if r.Values != nil {
		t.add("history", "each value apart: %s", cmp.Or(printablePath(string(r.AppendValue(nil, e.Descriptor))), "this one is too long"))
	}
}

// printCounting prints the key of a rule with limits, and the failure policy.
func (f *findings) printCounting(t table, e *descriptors.Explanation) {
	r := e.Match.Rule
	key := e.Match.AppendKey(nil, e.Domain, e.Descriptor)
	if stem, plain := descriptors.RatelimitKey(key); plain {
		t.add("key", "%q and the beginning of the window", stem)
	} else {
		t.add("key", "%q", key)
	}
	policy, variable := cmp.Or(r.OnFailure, f.onFailure), "on_backend_failure"
	if r.OnFailure == descriptors.PolicyDefault {
		variable = "ON_BACKEND_FAILURE"
	}
	t.add("failure", "%s, by %s: while the store gives no answer, hits %s", policy, variable, policy.Effect())
	if f.config.RefundsOnDeny(e.Domain) {
		t.add("refund", "refund_on_deny: a denied request gives back what it charged to descriptors that are not over")
	}
}

// describeLimit describes a limit and how it counts.
func describeLimit(r *descriptors.Rule, l *descriptors.Limit) string {
	out := l.Describe()
	if r.Charge.Always(l) {
		out += ", denied hits count too"
	}
	if l.Name != "" {
		out += fmt.Sprintf(", name %q", l.Name)
	}
	return out
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, ", ")
}

// requestLines describes a request with all descriptors: the effect of each, which are charged, and the verdict.
func (f *findings) requestLines(all []descriptors.Explanation) (lines []string) {
	store := &trial{}
	limiter := limit.New(store, limit.Options{}, hits.New(0))
	limiter.Apply(f.config)
	call := limit.Call{Request: limit.Request{Domain: all[0].Domain}}
	for i := range all {
		call.AddDescriptor().Entries = all[i].Descriptor
	}
	_ = limiter.Decide(context.Background(), &call) // no error for a valid domain
	if call.TooLarge {
		return []string{"verdict: too large, so nothing of it is counted; denied if a rule of its domain denies requests"}
	}
	var charged, deniers, quotas []string
	for i := range all {
		name, s, does := descriptors.Abbreviate(all[i].Descriptor.String()), &call.Statuses[i], ""
		switch replaces := all[i].Match.Rule; {
		case s.Outcome == limit.Unlimited && len(s.Rule.Replaces) > 0:
			does = "never denies: unlimited; limits named " + quotedList(s.Rule.Replaces) + " step aside for it"
		case s.Outcome == limit.Unlimited:
			does = "never denies: unlimited; limits of others hold"
		case s.Rule != nil:
			switch charged = append(charged, name); {
			case s.Outcome == limit.ShadowOver:
				does = "never denies, in shadow mode: "
			case s.Quota:
				does, quotas = "denies when all quotas of the request are over: ", append(quotas, name)
			default:
				does, deniers = "denies when it is over: ", append(deniers, name)
			}
			does += descriptors.DescribeLimits(store.checks[len(charged)-1].Limits...)
		case replaces != nil:
			does = "passes, uncounted: another descriptor replaces it"
		default:
			does = "passes, uncounted: no rule applies"
		}
		lines = append(lines, name+": "+does)
	}
	if len(quotas) > 0 {
		deniers = append(deniers, "all of "+strings.Join(quotas, ", "))
	}
	verdict, charge := "OK: nothing here denies", "nothing"
	if call.Result == limit.OverLimit {
		verdict = "denied if over: " + strings.Join(deniers, ", or ") + "; else OK. Envoy shows the limit with the least left"
	}
	if len(charged) > 0 {
		charge = strings.Join(charged, ", ") + ", each by itself, also where another denies or is unlimited"
		if f.config.RefundsOnDeny(all[0].Domain) {
			charge += "; refund_on_deny gives back what a denied request has charged elsewhere"
		}
	}
	return append(lines, "charged: "+charge, "verdict: "+verdict)
}

// trial is a store that denies every check, and records the checks.
type trial struct{ checks []backend.Check }

// Decide implements backend.Counter.
func (t *trial) Decide(_ context.Context, checks []backend.Check, out []backend.Decision) error {
	t.checks = checks
	clear(out[:len(checks)]) // not allowed
	return nil
}

// Close implements backend.Counter.
func (*trial) Close() error { return nil }
