// Package checkcmd has the command weir check, which checks descriptor files and explains how descriptors are matched.
package checkcmd

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// Command checks descriptor files.
type Command struct {
	Path    string   `arg:"" optional:"" placeholder:"DIR|FILE" help:"Directory of descriptor files, a file, or - for standard input. A file may hold Kubernetes manifests: a ConfigMap, or a rendered chart."`
	Strict  bool     `help:"Treat warnings as errors."`
	JSON    bool     `name:"json" help:"Print one JSON document."`
	Explain []string `sep:"none" placeholder:"K=V,K=V" help:"Tell which rule a descriptor gets, all that it says, and why no other rule. Several times, or with \" + \" between them: what becomes of one request that has these descriptors."`
	Domain  string   `placeholder:"NAME" help:"The domain of --explain; may be left out if there is only one."`
}

// Help returns what weir check --help shows below the first sentence.
func (*Command) Help() string {
	return `Prints each rule's path, its limits as N/UNIT with their names, and what is wrong, with its line. Exit code: 0 the files
are right, 1 they are not, 2 the question is wrong.

    weir check k8s/base/config                                    # a directory, as weir serve reads it
    weir check shop.yaml                                          # one file
    helm template weir helm/weir | weir check -                   # what weir would read of a chart, by its line there
    weir check k8s/base/config --explain user=ann,path=/pay --domain shop
    weir check k8s/base/config --explain 'user=ann + plan=gold' --domain shop     # one request with two descriptors

ALGORITHM is that of limits that name none: ` + descriptors.AlgorithmNames + `.
MERGE_DOMAIN_CONFIG=true lets several files configure one domain. ON_BACKEND_FAILURE holds for rules that name no policy: allow
unless it is set, error for a server that is started as ratelimit.
Of manifests, variables of the container that runs weir hold, where this environment sets none. Files are explained as
far as they are right.

--json prints one document, whose fields descriptors/FORMAT.md names: problems, domains with their rules and, with
--explain, what becomes of each descriptor.`
}

// Run checks the files. Its error is a terminal.Exit: No if they have errors, Failed if the arguments have.
func (c *Command) Run(out terminal.Output) error {
	if c.Path == "" {
		return errors.New("name a directory of descriptor files, a file, or - for standard input: weir check DIR")
	}
	f, err := c.read(out.In)
	if err != nil {
		return err
	}
	for i := range f.problems {
		f.problems[i].Warning = f.problems[i].Warning && !c.Strict
	}
	if c.JSON {
		err = c.printJSON(out.Out, f)
	} else {
		err = c.printText(out, f)
	}
	if err == nil && !f.valid() {
		err = terminal.ExitNo
	}
	return err
}

// sourceName returns the name of the path in messages.
func (c *Command) sourceName() string {
	if c.Path == "-" {
		return "<stdin>"
	}
	return c.Path
}

// Load returns the configuration of a directory or a file, as weir check reads it, for commands that use it: its problems are
// printed, and if there are errors, terminal.ExitNo is returned.
func Load(path string, out terminal.Output) (*descriptors.Config, error) {
	c := Command{Path: path}
	f, err := c.read(out.In)
	switch {
	case err != nil:
		return nil, err
	case f.unreadable:
		return nil, errors.New(f.problems[0].Text)
	case !Report(out.Err, c.sourceName(), f.problems):
		return nil, terminal.ExitNo
	}
	return f.config, nil
}

// printText prints the problems, then the rules or the explanation.
func (c *Command) printText(out terminal.Output, f *findings) error {
	if f.unreadable {
		fmt.Fprintln(out.Err, "weir check:", descriptors.Printable(f.problems[0].Text))
		return nil
	}
	for _, sentence := range f.leftOut {
		fmt.Fprintln(out.Err, "left out:", descriptors.Printable(sentence))
	}
	right := Report(out.Err, c.sourceName(), f.problems)
	switch {
	case len(c.Explain) > 0:
		return c.printExplanations(out.Out, f)
	case right:
		return List(out.Out, f.config)
	}
	return nil
}

// Report prints problems and, if there are errors, their number. It reports whether there are no errors, so that the
// configuration can be used.
func Report(w io.Writer, name string, problems yaml.Problems) bool {
	for _, p := range problems {
		fmt.Fprintf(w, "%s: %v\n", severity(p), p)
	}
	errs, warnings := count(problems)
	if errs > 0 {
		fmt.Fprintf(w, "%s: %s, %s\n", name, terminal.Count(errs, "error"), terminal.Count(warnings, "warning"))
	}
	return errs == 0
}

// severity returns "warning" or "error".
func severity(p yaml.Problem) string {
	if p.Warning {
		return "warning"
	}
	return "error"
}

// count returns how many errors and warnings there are.
func count(problems yaml.Problems) (errs, warnings int) {
	for _, p := range problems {
		if p.Warning {
			warnings++
		}
	}
	return len(problems) - warnings, warnings
}

// List prints the rules of a configuration, by their domains.
func List(out io.Writer, config *descriptors.Config) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, domain := range config.DomainNames() {
		fmt.Fprintln(w, descriptors.Printable(domain))
		rules, passes := config.DomainContent(domain)
		for _, r := range rules {
			fmt.Fprintf(w, "  %s\t%s%s\n", printablePath(r.Path), r.Describe(), looseBounds(r))
		}
		for _, p := range passes {
			fmt.Fprintf(w, "  %s\tpasses, uncounted\n", printablePath(p.Path))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "OK: %s, %s\n", terminal.Count(config.DomainCount(), "domain"), terminal.Count(len(config.Rules()), "rule"))
	return err
}

// looseBounds describes the limits of a rule that may admit more hits than their number in some window.
func looseBounds(r *descriptors.Rule) (text string) {
	for i := range r.Limits {
		if most, _ := r.Limits[i].Bound(r.Charge); most > r.Limits[i].Requests {
			text += fmt.Sprintf(" (up to %d in some %s)", most, strings.TrimPrefix(r.Limits[i].String(), strconv.FormatUint(r.Limits[i].Requests, 10)+"/"))
		}
	}
	return text
}

// printablePath returns a rule's path, or a value of its history, for people.
func printablePath(path string) string { return descriptors.Printable(descriptors.ReadablePath(path)) }
