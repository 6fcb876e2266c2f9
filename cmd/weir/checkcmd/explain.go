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

const maxReplacers = 10 // rules are named that replace limits of the one that is explained

// explain prints how each descriptor is matched, and all that its rule says; then what becomes of the request.
func (c *Command) explain(out io.Writer, checked *checked) error {
	all, err := c.explained(checked.config)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range all {
		x := &all[i]
		if i > 0 {
			x.DomainWhere = "" // it is told once
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, x)
		switch {
		case x.Match.Found == descriptors.UnknownDomain:
			return cmp.Or(w.Flush(), error(terminal.Failed))
		case x.Match.Found == descriptors.BrokenDomain: // which says all of the request
			return w.Flush()
		case x.Match.Rule != nil:
			fmt.Fprintln(w)
			checked.explainRule(w, x)
		}
	}
	if len(all) > 1 {
		fmt.Fprint(w, "\n", strings.Join(checked.request(all), "\n"), "\n")
	}
	return w.Flush()
}

// explainedDomain returns the domain asked for, or the only one there is.
func (c *Command) explainedDomain(config *descriptors.Config) (string, error) {
	if c.Domain != "" {
		return c.Domain, nil
	}
	names := slices.Concat(config.DomainNames(), config.BrokenNames())
	if len(names) == 1 {
		return names[0], nil
	}
	return "", fmt.Errorf("--explain needs --domain, one of %s", strings.Join(names, ", "))
}

// explainRule prints all that the rule of an explanation says about its descriptor, a line each.
func (c *checked) explainRule(w io.Writer, x *descriptors.Explanation) {
	add := func(about, format string, args ...any) {
		text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\t", " ") // a tab would end the column
		fmt.Fprintf(w, "%s\t%s\n", about, text)
	}
	r := x.Match.Rule
	path := terminal.Printable(descriptors.ReadablePath(r.Path))
	add("rule", "%s (%s)", path, terminal.Printable(r.Where))
	for i := range r.Limits {
		add("limit", "%s", describeLimit(r, &r.Limits[i]))
	}
	if r.Unlimited {
		add("limit", "none: unlimited")
	} else {
		add("charge", "%s", describeCharge(r))
		if key, plain := keyOf(x); plain {
			add("key", "%q and the beginning of the window", key)
		} else {
			add("key", "%q", key)
		}
	}
	for i, e := range x.Descriptor {
		if pattern := r.Shared(i); pattern != "" {
			add("share", "all values of %s that fit %q have one count", terminal.Printable(e.Key), pattern)
		}
	}
	if len(r.Replaces) > 0 {
		add("replaces", "%s, where a request matches them as well", quotedList(r.Replaces))
	}
	for _, text := range replacers(c.config, r) {
		add("replaced", "%s", text)
	}
	if r.Shadow {
		add("shadow", "counted, never denied")
	}
	if r.Quota {
		add("quota", "denied only when all quotas of a request are over")
	}
	if !r.Unlimited {
		add("failure", "%s: while Redis gives no answer, hits %s", c.failure(r), cmp.Or(r.OnFailure, c.files.OnFailure).Effect())
	}
	if c.config.RefundsOnDeny(x.Domain) {
		add("refund", "refund_on_deny: a refused request gives back what it charged to descriptors that are not over")
	}
	if r.Message != "" {
		add("message", "%q", r.Message)
	}
	if r.Metadata != nil {
		add("metadata", "%s", asJSON(r.Metadata))
	}
	if r.Values == nil {
		add("history", "%s, all values together", path)
	} else {
		value := string(r.AppendValue(nil, x.Descriptor))
		add("history", "%s, each value apart: %s", path, terminal.Printable(descriptors.ReadablePath(value)))
	}
}

// keyOf returns the key that a descriptor is counted under, or reports true and returns what it begins with.
func keyOf(x *descriptors.Explanation) (key string, stem bool) {
	all := x.Match.AppendKey(nil, x.Domain, x.Descriptor)
	if begin, plain := descriptors.PlainStem(all); plain {
		return string(begin), true
	}
	return string(all), false
}

// describeLimit returns a limit with all that decides how it counts.
func describeLimit(r *descriptors.Rule, l *descriptors.Limit) string {
	out := fmt.Sprintf("%s  %s of %s", l, l.Algorithm, l.WindowName())
	switch l.Algorithm {
	case descriptors.SlidingWindow:
		out += ", buckets of " + strings.Join(l.LevelNames(), ", ")
	case descriptors.SlidingLog:
		out += ", exact to the microsecond"
	case descriptors.TokenBucket:
		out += fmt.Sprintf(", burst %d", l.Burst)
	}
	if r.Charge.Always(l) {
		out += ", denied hits count too"
	}
	if l.Name != "" {
		out += fmt.Sprintf(", name %q", l.Name)
	}
	return out
}

// describeCharge tells which hits of a rule are counted.
func describeCharge(r *descriptors.Rule) string {
	switch {
	case r.Charge == descriptors.ChargeAdmitted:
		return "admitted hits"
	case !slices.ContainsFunc(r.Limits, func(l descriptors.Limit) bool { return !r.Charge.Always(&l) }):
		return "all hits"
	}
	return "admitted hits, and all that a descriptor brings as its own hits_addend"
}

// failure tells where the failure policy of a rule comes from.
func (c *checked) failure(r *descriptors.Rule) string {
	switch policy := c.files.OnFailure; {
	case r.OnFailure != descriptors.PolicyDefault:
		return fmt.Sprintf("on_backend_failure is %s", r.OnFailure)
	case c.files.FailureAsked:
		return fmt.Sprintf("ON_BACKEND_FAILURE is %s", policy)
	case policy == descriptors.PolicyError:
		return "ON_BACKEND_FAILURE is not set, which means error (started as weir, allow)"
	default:
		return fmt.Sprintf("ON_BACKEND_FAILURE is not set, which means %s (started as ratelimit, error)", policy)
	}
}

// replacers names the rules beside which limits of r step aside.
func replacers(config *descriptors.Config, r *descriptors.Rule) (all []string) {
	names, more := r.Names(), 0
	for _, other := range config.Rules() {
		replaced := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(other.Replaces, name) })
		switch {
		case other.Domain != r.Domain || len(replaced) == 0:
		case len(all) == maxReplacers:
			more++
		default:
			all = append(all, fmt.Sprintf("%s, where a request matches %s (%s) as well", quotedList(replaced),
				terminal.Printable(descriptors.ReadablePath(other.Path)), terminal.Printable(other.Where)))
		}
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("and by %d more", more))
	}
	return all
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, ", ")
}

// asJSON returns a rule's metadata on one line, its keys in order.
func asJSON(metadata map[string]any) string {
	var b strings.Builder
	if err := terminal.WriteJSON(&b, metadata); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
