// Package checkcmd is weir check, which judges descriptor files and explains what a descriptor gets.
package checkcmd

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// Command judges descriptor files.
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

// Run judges the files. Its error is a terminal.Exit: No if they are wrong, Failed if the question is.
func (c *Command) Run(out terminal.Output) error {
	if c.Path == "" {
		return errors.New("check: name a directory of descriptor files, a file, or - for standard input")
	}
	x, err := c.read(out.In)
	if err != nil {
		return err
	}
	for i := range x.problems {
		x.problems[i].Warning = x.problems[i].Warning && !c.Strict
	}
	x.right = x.problems.Err() == nil
	if c.JSON {
		err = c.writeJSON(out.Out, x)
	} else {
		err = c.write(out, x)
	}
	if err == nil && !x.right {
		err = terminal.No
	}
	return err
}

// checked is the result of reading files: the configuration, and the problems.
type checked struct {
	config     *descriptors.Config // nil if no domain is right
	problems   yaml.Problems
	leftOut    []string
	files      config.Files
	dir        string // the directory that the names of files are relative to; "" if they are paths already
	unreadable bool   // nothing could be checked: the only problem is the reason
	right      bool   // the configuration can be used
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

// write prints problems, and the rules or the explanation.
func (c *Command) write(out terminal.Output, x *checked) error {
	if x.unreadable {
		fmt.Fprintln(out.Err, "weir check:", terminal.Printable(x.problems[0].Text))
		return nil
	}
	for _, sentence := range x.leftOut {
		fmt.Fprintln(out.Err, "left out:", terminal.Printable(sentence))
	}
	Report(out.Err, name(c.Path), x.problems)
	switch {
	case len(c.Explain) > 0:
		return c.explain(out.Out, x)
	case x.right:
		return List(out.Out, x.config)
	}
	return nil
}

// name returns what a path is called in messages.
func name(path string) string {
	if path == "-" {
		return "<stdin>"
	}
	return path
}

// Report prints the problems of files, which are called of, and reports whether the configuration can be used.
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
