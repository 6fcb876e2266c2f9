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
	"github.com/weirproxy/weir/descriptors/yaml"
)

// exitWrong is what weir check ends with when a configuration cannot be used.
const exitWrong exitCode = 1

type checkCmd struct {
	Dir     string `arg:"" help:"Directory of descriptor files."`
	Strict  bool   `help:"Take warnings for errors."`
	Explain string `placeholder:"K=V,K=V" help:"Say which rule a descriptor gets, all that it says, and why no other rule."`
	Domain  string `placeholder:"NAME" help:"The domain of --explain; may be left out if there is only one."`

	stdout, stderr io.Writer `kong:"-"` // nil: those of the process
}

// Help is what weir check --help shows below the first sentence.
func (*checkCmd) Help() string {
	return `Prints each rule's path and limits as N/UNIT. Exit code: 0 the files are right, 1 they are not, 2 the question is wrong.
ALGORITHM is that of limits that name none: sliding_window (the default), fixed_window, sliding_log or token_bucket.
MERGE_DOMAIN_CONFIG=true lets several files configure one domain. Files are explained as far as they are right.

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
	config, problems, err := file.Load(c.Dir, yaml.Options{
		Algorithm: descriptors.Algorithm(set.Algorithm), Merge: set.MergeDomains,
	})
	if err != nil {
		fmt.Fprintln(c.stderr, "weir check:", err)
		return exitWrong
	}
	right := c.report(problems)
	switch {
	case c.Explain != "" && config == nil:
		_, err = fmt.Fprintln(c.stdout, "The files of all domains have errors: every request is answered UNAVAILABLE.")
	case c.Explain != "":
		err = c.explain(config)
	case right:
		err = c.list(config)
	}
	if err == nil && !right {
		err = exitWrong
	}
	return err
}

// report prints the problems and says whether the configuration can be used.
func (c *checkCmd) report(problems yaml.Problems) bool {
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
