package checkcmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

const nothingRight = "The files of all domains have errors: every request is answered UNAVAILABLE."

// explain prints how each descriptor is matched, and all that its rule says; then what a request with all of them gets.
func (c *Command) explain(out io.Writer, x *checked) error {
	if x.config == nil {
		_, err := fmt.Fprintln(out, nothingRight)
		return err
	}
	all, err := c.explained(x.config)
	if err != nil {
		return err
	}
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	for i := range all {
		e := &all[i]
		if i > 0 {
			e.DomainWhere = "" // it is printed once
			fmt.Fprintln(t)
		}
		fmt.Fprint(t, e)
		switch {
		case e.Match.Found == descriptors.UnknownDomain:
			return cmp.Or(t.Flush(), error(terminal.Failed))
		case e.Match.Found == descriptors.BrokenDomain: // its descriptors all get the same answer
			return t.Flush()
		case e.Match.Rule != nil:
			x.explainRule(t, e)
		}
	}
	if len(all) > 1 {
		fmt.Fprintln(t)
		for _, line := range x.request(all) {
			fmt.Fprintln(t, line)
		}
	}
	return t.Flush()
}

// explained returns the explanations that are asked for: at least one, of descriptors of one request. The domain is that
// asked for, or the only one there is.
func (c *Command) explained(config *descriptors.Config) (all []descriptors.Explanation, err error) {
	names := slices.Concat(config.DomainNames(), config.BrokenNames())
	if c.Domain == "" && len(names) != 1 {
		return nil, fmt.Errorf("--explain needs --domain, one of %s", descriptors.Listed(names))
	}
	domain := cmp.Or(append([]string{c.Domain}, names...)...)
	for _, text := range descriptors.SplitRequest(strings.Join(c.Explain, " + ")) {
		d, err := descriptors.ParseDescriptor(text)
		if err != nil {
			return nil, fmt.Errorf("--explain: %w", err)
		}
		all = append(all, config.Explain(domain, d))
	}
	return all, nil
}

// table prints two columns.
type table struct{ *tabwriter.Writer }

func (t table) add(about, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\t", " ") // a tab would end the column
	fmt.Fprintf(t, "%s\t%s\n", about, text)
}

// explainRule prints all that the rule of an explanation says.
func (x *checked) explainRule(t table, e *descriptors.Explanation) {
	r := e.Match.Rule
	for i := range r.Limits {
		t.add("limit", "%s", describeLimit(r, &r.Limits[i]))
	}
	if r.Unlimited {
		t.add("limit", "none: unlimited")
	} else {
		x.explainCounting(t, e)
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
	if r.Message != "" {
		t.add("message", "%q", r.Message)
	}
	if r.Metadata != nil {
		var text strings.Builder
		_ = terminal.WriteJSON(&text, r.Metadata) // a rule has only what JSON has
		t.add("metadata", "%s", strings.TrimSpace(text.String()))
	}
	if r.Values != nil {
		t.add("history", "each value apart: %s", readable(string(r.AppendValue(nil, e.Descriptor))))
	}
}

// explainCounting prints where the hits of a rule with limits count, and what decides while no store does.
func (x *checked) explainCounting(t table, e *descriptors.Explanation) {
	r := e.Match.Rule
	key := e.Match.AppendKey(nil, e.Domain, e.Descriptor)
	if stem, plain := descriptors.PlainStem(key); plain {
		t.add("key", "%q and the beginning of the window", stem)
	} else {
		t.add("key", "%q", key)
	}
	policy, variable := cmp.Or(r.OnFailure, x.files.OnFailure), "on_backend_failure"
	if r.OnFailure == descriptors.PolicyDefault {
		variable = "ON_BACKEND_FAILURE"
	}
	t.add("failure", "%s, by %s: while the store gives no answer, hits %s", policy, variable, policy.Effect())
	if x.config.RefundsOnDeny(e.Domain) {
		t.add("refund", "refund_on_deny: a refused request gives back what it charged to descriptors that are not over")
	}
}

// readable returns a path as people read it, for a terminal.
func readable(path string) string { return terminal.Printable(descriptors.ReadablePath(path)) }

// describeLimit returns a limit with all that decides how it counts.
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

// request describes what each descriptor does for a request that has them all, then what is charged, and the verdict.
func (x *checked) request(all []descriptors.Explanation) (lines []string) {
	var replaced, charged, deniers, quotas []string
	for i := range all {
		if r := all[i].Match.Rule; r != nil {
			replaced = append(replaced, r.Replaces...)
		}
	}
	for i := range all {
		r, name := all[i].Match.Rule, descriptors.Shown(all[i].Descriptor.String())
		lines = append(lines, name+": "+effect(r, replaced))
		switch {
		case r == nil || r.Unlimited || r.ReplacedBy(replaced):
			continue
		case r.Shadow:
		case r.Quota:
			quotas = append(quotas, name)
		default:
			deniers = append(deniers, name)
		}
		charged = append(charged, name)
	}
	if len(quotas) > 0 {
		deniers = append(deniers, "all of "+strings.Join(quotas, ", "))
	}
	verdict := "OK: nothing here denies"
	if len(deniers) > 0 {
		verdict = "denied if over: " + strings.Join(deniers, ", or ") + "; else OK. Envoy shows the limit with the least left"
	}
	charge := "nothing"
	if len(charged) > 0 {
		charge = strings.Join(charged, ", ") + ", each by itself, also where another denies or is unlimited"
		if x.config.RefundsOnDeny(all[0].Domain) {
			charge += "; refund_on_deny gives back what a denied request has charged elsewhere"
		}
	}
	return append(lines, "charged: "+charge, "verdict: "+verdict)
}

// effect describes what a rule, nil for none, does in a request that replaces the limits of some names.
func effect(r *descriptors.Rule, replaced []string) string {
	switch {
	case r == nil:
		return "passes, uncounted: no rule applies"
	case r.ReplacedBy(replaced):
		return "passes, uncounted: another descriptor replaces it"
	case r.Unlimited && len(r.Replaces) > 0:
		return "never denies: unlimited; limits named " + quotedList(r.Replaces) + " step aside for it"
	case r.Unlimited:
		return "never denies: unlimited; limits of others hold"
	}
	does := "denies when it is over: "
	switch {
	case r.Shadow:
		does = "never denies, in shadow mode: "
	case r.Quota:
		does = "denies when all quotas of the request are over: "
	}
	remaining := slices.DeleteFunc(slices.Clone(r.Limits), func(l descriptors.Limit) bool { return l.ReplacedBy(replaced) })
	return does + descriptors.DescribeLimits(remaining...)
}
