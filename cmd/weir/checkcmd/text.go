package checkcmd

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// Report prints the problems of files, which are called of, and reports whether the configuration can be used.
func Report(w io.Writer, name string, problems yaml.Problems, strict bool) bool {
	c := Command{Strict: strict}
	for i := range problems {
		fmt.Fprintf(w, "%s: %v\n", c.severity(&problems[i]), problems[i])
	}
	errs, warnings := c.count(problems)
	if errs > 0 {
		fmt.Fprintf(w, "%s: %s, %s\n", name, terminal.Count(errs, "error"), terminal.Count(warnings, "warning"))
	}
	return errs == 0
}

// List prints the rules of a configuration, by their domains.
func List(out io.Writer, config *descriptors.Config) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, domain := range config.DomainNames() {
		fmt.Fprintln(w, terminal.Printable(domain))
		for _, r := range config.Rules() {
			if r.Domain == domain {
				fmt.Fprintf(w, "  %s\t%s\n", readable(r.Path), r.Describe())
			}
		}
		for _, p := range config.Passes() {
			if p.Domain == domain {
				fmt.Fprintf(w, "  %s\tpasses, uncounted\n", readable(p.Path))
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "OK: %s, %s\n", terminal.Count(config.Domains(), "domain"), terminal.Count(len(config.Rules()), "rule"))
	return err
}
