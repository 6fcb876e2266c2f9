package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/descriptors/yaml"
)

type checkCommand struct {
	Dir     string `arg:"" help:"Directory of descriptor files."`
	Strict  bool   `help:"Treat warnings as errors."`
	Explain string `placeholder:"K=V,K=V" help:"Tell which rule a descriptor gets, all that it says, and why no other rule."`
	Domain  string `placeholder:"NAME" help:"The domain of --explain; may be left out if there is only one."`
}

func (*checkCommand) Help() string {
	return `Prints each rule's path and limits as N/UNIT. Exit code: 0 the files are right, 1 they are not, 2 the question is wrong.
ALGORITHM is that of limits that name none: sliding_window (the default), fixed_window, sliding_log or token_bucket.
MERGE_DOMAIN_CONFIG=true lets several files configure one domain. Files are explained as far as they are right.

    weir check k8s/base/config
    weir check k8s/base/config --explain user=ann,path=/pay --domain shop`
}

func (c *checkCommand) Run(out terminal.Output) error {
	options, err := settings.ReadFiles()
	if err != nil {
		return err
	}
	config, problems, err := file.Load(c.Dir, options)
	if err != nil {
		fmt.Fprintln(out.Err, "weir check:", err)
		return terminal.No
	}
	right := c.report(out.Err, problems)
	switch {
	case c.Explain != "" && config == nil:
		_, err = fmt.Fprintln(out.Out, "The files of all domains have errors: every request is answered UNAVAILABLE.")
	case c.Explain != "":
		err = c.explain(out.Out, config)
	case right:
		err = listRules(out.Out, config)
	}
	if err == nil && !right {
		err = terminal.No
	}
	return err
}

// report prints the problems and reports whether the configuration can be used.
func (c *checkCommand) report(w io.Writer, problems yaml.Problems) bool {
	errs, warnings := 0, 0
	for _, p := range problems {
		if p.Warning && !c.Strict {
			warnings++
			fmt.Fprintln(w, "warning:", p)
		} else {
			errs++
			fmt.Fprintln(w, "error:", p)
		}
	}
	if errs > 0 {
		fmt.Fprintf(w, "%s: %s, %s\n", c.Dir, terminal.Count(errs, "error"), terminal.Count(warnings, "warning"))
	}
	return errs == 0
}

func listRules(out io.Writer, config *descriptors.Config) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, domain := range config.DomainNames() {
		fmt.Fprintln(w, terminal.Printable(domain))
		for _, r := range config.Rules() {
			if r.Domain == domain {
				fmt.Fprintf(w, "  %s\t%s\n", terminal.Printable(descriptors.ReadablePath(r.Path)), describeRule(r))
			}
		}
		for _, p := range config.Passes() {
			if p.Domain == domain {
				fmt.Fprintf(w, "  %s\tpasses, uncounted\n", terminal.Printable(descriptors.ReadablePath(p.Path)))
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "OK: %s, %s\n", terminal.Count(config.Domains(), "domain"), terminal.Count(len(config.Rules()), "rule"))
	return err
}

// describeRule returns a rule's limits as N/UNIT, and what else it says.
func describeRule(r *descriptors.Rule) string {
	if r.Unlimited {
		return "unlimited"
	}
	limits := make([]string, len(r.Limits))
	for i := range r.Limits {
		limits[i] = r.Limits[i].String()
	}
	out := strings.Join(limits, ", ")
	if r.Shadow {
		out += "  (shadow: never denies)"
	}
	if r.Quota {
		out += "  (quota: denies when all quotas of a request are over)"
	}
	return out
}

const maxReplacers = 10 // rules are named that replace limits of the one that is explained

func (c *checkCommand) explain(out io.Writer, config *descriptors.Config) error {
	d, err := descriptors.ParseDescriptor(c.Explain)
	if err != nil {
		return fmt.Errorf("--explain: %w", err)
	}
	domain, err := c.explainedDomain(config)
	if err != nil {
		return err
	}
	x := config.Explain(domain, d)
	if _, err := io.WriteString(out, x.String()); err != nil {
		return err
	}
	switch {
	case x.Match.Found == descriptors.UnknownDomain:
		return terminal.Failed
	case x.Match.Rule == nil:
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w)
	explainRule(w, config, &x)
	return w.Flush()
}

// explainedDomain returns the domain asked for, or the only one there is.
func (c *checkCommand) explainedDomain(config *descriptors.Config) (string, error) {
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
func explainRule(w io.Writer, config *descriptors.Config, x *descriptors.Explanation) {
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
		add("key", "%q", x.Match.AppendKey(nil, x.Domain, x.Descriptor))
	}
	for i, e := range x.Descriptor {
		if pattern := r.Shared(i); pattern != "" {
			add("share", "all values of %s that fit %q have one count", terminal.Printable(e.Key), pattern)
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
	if r.OnFailure != descriptors.PolicyDefault {
		add("failure", "on_backend_failure is %s: %s", r.OnFailure, describePolicy(r.OnFailure))
	}
	if config.RefundsOnDeny(x.Domain) {
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

// describePolicy tells what a failure policy does.
func describePolicy(p descriptors.Policy) string {
	switch p {
	case descriptors.PolicyAllow:
		return "while Redis gives no answer, all hits pass"
	case descriptors.PolicyDeny:
		return "while Redis gives no answer, all hits are refused"
	case descriptors.PolicyLocal:
		return "while Redis gives no answer, each replica counts by itself, under its share of the limit"
	}
	return "while Redis gives no answer, requests are answered UNAVAILABLE, and Envoy's failure_mode_deny decides"
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
