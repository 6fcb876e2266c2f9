package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/kelseyhightower/envconfig"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
)

// exitWrong is what weir check ends with when a configuration cannot be used.
const exitWrong exitCode = 1

type checkCmd struct {
	Dir     string `arg:"" help:"Directory of descriptor files."`
	Strict  bool   `help:"Take warnings for errors."`
	Explain string `placeholder:"K=V,K=V" help:"Say which rule a descriptor gets, which limits and which key, and why no other rule."`
	Domain  string `placeholder:"NAME" help:"The domain of --explain; may be left out if there is only one."`

	stdout, stderr io.Writer `kong:"-"` // nil: those of the process
}

// Help is what weir check --help shows below the first sentence.
func (*checkCmd) Help() string {
	return `Prints each rule's path and limits as N/UNIT. Exit code: 0 the files are right, 1 they are not, 2 the question is wrong.
ALGORITHM is that of limits that name none: sliding_window (the default), fixed_window or sliding_log.
MERGE_DOMAIN_CONFIG=true lets several files configure one domain.

    weir check k8s/base/config
    weir check k8s/base/config --explain user=ann,path=/pay --domain shop`
}

// Run checks a directory and prints what it found.
func (c *checkCmd) Run() error {
	if c.stdout == nil {
		c.stdout, c.stderr = os.Stdout, os.Stderr
	}
	var set struct {
		Algorithm    algorithm `envconfig:"ALGORITHM" default:"sliding_window"`
		MergeDomains bool      `envconfig:"MERGE_DOMAIN_CONFIG" default:"false"`
	}
	if err := envconfig.Process("", &set); err != nil {
		return explainSetting(err)
	}
	config, problems, err := file.Load(c.Dir, descriptors.Options{
		Algorithm: descriptors.Algorithm(set.Algorithm), Merge: set.MergeDomains,
	})
	if err != nil {
		fmt.Fprintln(c.stderr, "weir check:", err)
		return exitWrong
	}
	if !c.report(problems) {
		return exitWrong
	}
	if c.Explain != "" {
		return c.explain(config)
	}
	return c.list(config)
}

// report prints the problems and says whether the configuration can be used.
func (c *checkCmd) report(problems descriptors.Problems) bool {
	errs, warnings := 0, 0
	for _, p := range problems {
		if p.Warning && !c.Strict {
			warnings++
			fmt.Fprintln(c.stderr, "warning:", p)
		} else {
			errs++
			fmt.Fprintln(c.stderr, "error:", p)
		}
	}
	if errs > 0 {
		fmt.Fprintf(c.stderr, "%s: %s, %s\n", c.Dir, count(errs, "error"), count(warnings, "warning"))
	}
	return errs == 0
}

// list prints each rule's path and limits.
func (c *checkCmd) list(config *descriptors.Config) error {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, domain := range config.DomainNames() {
		fmt.Fprintln(w, printable(domain))
		for _, r := range config.Rules() {
			if r.Domain == domain {
				fmt.Fprintf(w, "  %s\t%s\n", printable(descriptors.ReadablePath(r.Path)), describeRule(r))
			}
		}
		for _, p := range config.Passes() {
			if p.Domain == domain {
				fmt.Fprintf(w, "  %s\tpasses, uncounted\n", printable(descriptors.ReadablePath(p.Path)))
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.stdout, "OK: %s, %s\n", count(config.Domains(), "domain"), count(len(config.Rules()), "rule"))
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// describeRule is a rule's limits as N/UNIT, and what else it says.
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
	rule := x.Match.Rule
	switch {
	case x.Match.Found == descriptors.UnknownDomain:
		return exitError
	case rule == nil:
		return nil
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nrule\t%s (%s)\n", descriptors.ReadablePath(rule.Path), rule.Where)
	for i := range rule.Limits {
		fmt.Fprintf(w, "limit\t%s\n", describeLimit(rule, &rule.Limits[i]))
	}
	if rule.Unlimited {
		fmt.Fprintln(w, "limit\tnone: unlimited")
	} else {
		fmt.Fprintf(w, "key\t%q\n", x.Match.AppendKey(nil, domain, d))
	}
	if rule.Shadow {
		fmt.Fprintln(w, "shadow\tcounted, never denied")
	}
	if rule.Quota {
		fmt.Fprintln(w, "quota\tdenied only when all quotas of a request are over")
	}
	if rule.Message != "" {
		fmt.Fprintf(w, "message\t%q\n", rule.Message)
	}
	return w.Flush()
}

// explainedDomain is the domain asked for, or the only one there is.
func (c *checkCmd) explainedDomain(config *descriptors.Config) (string, error) {
	if c.Domain != "" {
		return c.Domain, nil
	}
	names := config.DomainNames()
	if len(names) == 1 {
		return names[0], nil
	}
	return "", fmt.Errorf("--explain needs --domain, one of %s", strings.Join(names, ", "))
}

// describeLimit is a limit with all that decides how it counts.
func describeLimit(r *descriptors.Rule, l *descriptors.Limit) string {
	out := l.String() + "  " + l.Algorithm.String()
	switch l.Algorithm {
	case descriptors.SlidingWindow:
		out += ", buckets of " + strings.Join(l.LevelNames(), ", ")
	case descriptors.SlidingLog:
		out += ", exact to the microsecond"
	}
	if r.Charge.Always(l) {
		out += ", denied hits count too"
	}
	if l.Name != "" {
		out += fmt.Sprintf(", name %q", l.Name)
	}
	return out
}
