package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weirproxy/weir/descriptors"
)

// maxReplacers is how many rules an explanation names that replace limits of the one that it is about.
const maxReplacers = 10

// explain prints what a descriptor gets and why.
func (c *checkCmd) explain(config *descriptors.Config) error {
	d, err := descriptors.ParseDescriptor(c.Explain)
	if err != nil {
		return fmt.Errorf("--explain: %w", err)
	}
	domain, err := c.explainedDomain(config)
	if err != nil {
		return err
	}
	x := config.Explain(domain, d)
	if _, err := io.WriteString(c.stdout, x.String()); err != nil {
		return err
	}
	switch {
	case x.Match.Found == descriptors.UnknownDomain:
		return exitError
	case x.Match.Rule == nil:
		return nil
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w)
	for _, row := range explainRule(config, &x) {
		fmt.Fprintf(w, "%s\t%s\n", row.about, row.text)
	}
	return w.Flush()
}

// explainedDomain is the domain asked for, or the only one there is.
func (c *checkCmd) explainedDomain(config *descriptors.Config) (string, error) {
	if c.Domain != "" {
		return c.Domain, nil
	}
	names := slices.Concat(config.DomainNames(), config.BrokenNames())
	if len(names) == 1 {
		return names[0], nil
	}
	return "", fmt.Errorf("--explain needs --domain, one of %s", strings.Join(names, ", "))
}

// explainRow is one line of what a rule says.
type explainRow struct{ about, text string }

// explainRule is all that the rule of an explanation says about its descriptor.
func explainRule(config *descriptors.Config, x *descriptors.Explanation) (rows []explainRow) {
	add := func(about, format string, args ...any) {
		text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\t", " ") // a tab would end the column
		rows = append(rows, explainRow{about, text})
	}
	r := x.Match.Rule
	path := printable(descriptors.ReadablePath(r.Path))
	add("rule", "%s (%s)", path, printable(r.Where))
	for i := range r.Limits {
		add("limit", "%s", describeLimit(r, &r.Limits[i]))
	}
	if r.Unlimited {
		add("limit", "none: unlimited")
	} else {
		add("charge", "%s", describeCharge(r))
		add("key", "%q", x.Match.AppendKey(nil, x.Domain, x.Descriptor))
	}
	for i, e := range x.Descriptor {
		if pattern := r.Shared(i); pattern != "" {
			add("share", "all values of %s that fit %q have one count", printable(e.Key), pattern)
		}
	}
	if len(r.Replaces) > 0 {
		add("replaces", "%s, where a request matches them as well", quotedList(r.Replaces))
	}
	for _, text := range replacers(config, r) {
		add("replaced", "%s", text)
	}
	if r.Shadow {
		add("shadow", "counted, never denied")
	}
	if r.Quota {
		add("quota", "denied only when all quotas of a request are over")
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
		add("history", "%s, each value apart: %s", path, printable(descriptors.ReadablePath(value)))
	}
	return rows
}

// describeLimit is a limit with all that decides how it counts.
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

// describeCharge says which hits of a rule are counted.
func describeCharge(r *descriptors.Rule) string {
	switch r.Charge {
	case descriptors.ChargeAdmitted:
		return "admitted hits"
	case descriptors.ChargeAlways:
		return "all hits"
	}
	if !slices.ContainsFunc(r.Limits, func(l descriptors.Limit) bool { return !r.Charge.Always(&l) }) {
		return "all hits"
	}
	return "admitted hits, and all that a descriptor brings as its own hits_addend"
}

// replacers name the rules beside which limits of r step aside.
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
				printable(descriptors.ReadablePath(other.Path)), printable(other.Where)))
		}
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("and by %d more", more))
	}
	return all
}

// quotedList is names as people list them.
func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, ", ")
}

// asJSON is a rule's metadata on one line, its keys in order.
func asJSON(metadata map[string]any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(metadata); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
