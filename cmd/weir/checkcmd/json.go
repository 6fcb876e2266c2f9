package checkcmd

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// document is what --json prints. Fields are added to it, none changes its meaning. Files are paths as the command was given
// them; a line of 0 is not known.
type document struct {
	OK          bool              `json:"ok"`
	Errors      int               `json:"errors"`
	Warnings    int               `json:"warnings"`
	Problems    []problemDocument `json:"problems"`
	LeftOut     []string          `json:"left_out,omitempty"`
	Domains     []domainDocument  `json:"domains"`
	Explanation []string          `json:"explanation,omitempty"` // the lines that are printed without --json
}

type problemDocument struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Part     string `json:"part,omitempty"`
	Domain   string `json:"domain,omitempty"`
	Path     string `json:"path,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
}

type domainDocument struct {
	Domain string         `json:"domain"`
	Rules  []ruleDocument `json:"rules"`
	Passes []placed       `json:"passes"`
}

// placed is a path, and where its descriptor stands.
type placed struct {
	Path     string `json:"path"`
	Readable string `json:"readable"`
	File     string `json:"file"`
	Line     int    `json:"line"`
}

type ruleDocument struct {
	placed
	Limits    []limitDocument `json:"limits"`
	Unlimited bool            `json:"unlimited"`
	Shadow    bool            `json:"shadow"`
	Quota     bool            `json:"quota"`
	OnFailure string          `json:"on_backend_failure"`
}

type limitDocument struct {
	Limit     string `json:"limit"`
	Algorithm string `json:"algorithm"`
	Name      string `json:"name,omitempty"`
}

// writeJSON prints all that is known of the files, and the explanation that is asked for.
func (c *Command) writeJSON(out io.Writer, x *checked) error {
	d := document{OK: x.right, Problems: []problemDocument{}, LeftOut: x.leftOut, Domains: []domainDocument{}}
	d.Errors, d.Warnings = c.count(x.problems)
	for i := range x.problems {
		d.Problems = append(d.Problems, c.problem(x, &x.problems[i]))
	}
	if x.config != nil {
		for _, domain := range x.config.DomainNames() {
			d.Domains = append(d.Domains, x.domain(domain))
		}
	}
	var explained error
	if len(c.Explain) > 0 && !x.unread {
		var lines strings.Builder
		explained = c.explain(&lines, x)
		if _, told := terminal.ExitCode(explained); !told {
			return explained
		}
		d.Explanation = strings.Split(strings.TrimSuffix(lines.String(), "\n"), "\n")
	}
	return cmp.Or(terminal.WriteJSON(out, d), explained)
}

func (c *Command) problem(x *checked, p *yaml.Problem) problemDocument {
	return problemDocument{File: cmp.Or(x.path(p.File), name(c.Path)), Line: p.Line, Part: p.Part, Domain: p.Domain, Path: p.Stored,
		Rule: descriptors.ReadablePath(p.Stored), Severity: c.severity(p), Text: p.Text}
}

func (x *checked) domain(name string) domainDocument {
	d := domainDocument{Domain: name, Rules: []ruleDocument{}, Passes: []placed{}}
	for _, r := range x.config.Rules() {
		if r.Domain == name {
			d.Rules = append(d.Rules, x.rule(r))
		}
	}
	for _, p := range x.config.Passes() {
		if p.Domain == name {
			d.Passes = append(d.Passes, x.placed(p.Path, p.Where))
		}
	}
	return d
}

func (x *checked) placed(path, where string) placed {
	file, line := place(where)
	return placed{Path: path, Readable: descriptors.ReadablePath(path), File: x.path(file), Line: line}
}

// place parts file:line.
func place(where string) (file string, line int) {
	if i := strings.LastIndexByte(where, ':'); i >= 0 {
		if n, err := strconv.Atoi(where[i+1:]); err == nil {
			return where[:i], n
		}
	}
	return where, 0
}

func (x *checked) rule(r *descriptors.Rule) ruleDocument {
	d := ruleDocument{placed: x.placed(r.Path, r.Where), Limits: []limitDocument{}, Unlimited: r.Unlimited, Shadow: r.Shadow,
		Quota: r.Quota, OnFailure: cmp.Or(r.OnFailure, x.files.OnFailure).String()}
	for i := range r.Limits {
		l := &r.Limits[i]
		d.Limits = append(d.Limits, limitDocument{Limit: l.String(), Algorithm: l.Algorithm.String(), Name: l.Name})
	}
	return d
}
