package main

import (
	"fmt"
	"io"
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

// Help returns what weir check --help shows below the first sentence.
func (*checkCommand) Help() string {
	return `Prints each rule's path and limits as N/UNIT. Exit code: 0 the files are right, 1 they are not, 2 the question is wrong.
ALGORITHM is that of limits that name none: sliding_window (the default), fixed_window, sliding_log or token_bucket.
MERGE_DOMAIN_CONFIG=true lets several files configure one domain. Files are explained as far as they are right.

    weir check k8s/base/config
    weir check k8s/base/config --explain user=ann,path=/pay --domain shop`
}

// Run checks a directory and prints what it found.
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

// listRules prints each rule's path and limits.
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
