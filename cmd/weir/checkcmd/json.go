package checkcmd

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
)

// document is the output of --json. Fields may be added, but never change. Files are paths as given; a line of 0 is
// unknown.
type document struct {
	OK       bool              `json:"ok"`
	Errors   int               `json:"errors"`
	Warnings int               `json:"warnings"`
	Problems []problemDocument `json:"problems"`
	LeftOut  []string          `json:"left_out,omitempty"`
	Domains  []domainDocument  `json:"domains"`
	// Explanation is that of the first descriptor of --explain. If there are several, Explanations has those of all, and
	// Request describes a request with all of them.
	Explanation  *explanationDocument   `json:"explanation,omitempty"`
	Explanations []*explanationDocument `json:"explanations,omitempty"`
	Request      []string               `json:"request,omitempty"`
}

// explanationDocument explains the match of one descriptor.
type explanationDocument struct {
	Domain     string        `json:"domain"`
	Descriptor []string      `json:"descriptor,omitempty"`
	Reason     string        `json:"reason"`
	Rule       *ruleDocument `json:"rule"`          // null if none applies
	Key        string        `json:"key,omitempty"` // key of its counter
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
	Passes []placedPath   `json:"passes"`
}

// placedPath is a path and the position of its descriptor.
type placedPath struct {
	Path     string `json:"path"`
	Readable string `json:"readable"`
	File     string `json:"file"`
	Line     int    `json:"line"`
}

type ruleDocument struct {
	placedPath
	Limits    []limitDocument `json:"limits"`
	Unlimited bool            `json:"unlimited"`
	Shadow    bool            `json:"shadow"`
	Quota     bool            `json:"quota"`
	Lease     *bool           `json:"lease,omitempty"`
	Name      string          `json:"name,omitempty"` // of an unlimited rule
	OnFailure string          `json:"on_backend_failure"`
	Message   string          `json:"message,omitempty"`
	Metadata  map[string]any  `json:"metadata,omitempty"`
	Replaces  []string        `json:"replaces,omitempty"`
}

type limitDocument struct {
	Limit      string  `json:"limit"`
	Requests   uint64  `json:"requests"`
	Unit       string  `json:"unit"`
	Multiplier uint32  `json:"multiplier"`
	Algorithm  string  `json:"algorithm"`
	Window     float64 `json:"window_seconds"`
	Precision  float64 `json:"precision_seconds,omitempty"`
	Burst      uint64  `json:"burst,omitempty"`
	Name       string  `json:"name,omitempty"`
	Charge     string  `json:"charge"`
	Most       *uint64 `json:"most_in_any_window"` // null in shadow mode, which denies nothing, and of quotas
	Bound      string  `json:"bound"`              // the same in words, why, and what may be denied too early
}

// printJSON prints the findings, and the requested explanations.
func (c *Command) printJSON(out io.Writer, f *findings) error {
	d := document{OK: f.valid(), Problems: []problemDocument{}, LeftOut: f.leftOut, Domains: []domainDocument{}}
	d.Errors, d.Warnings = count(f.problems)
	for _, p := range f.problems {
		d.Problems = append(d.Problems, problemDocument{File: cmp.Or(f.path(p.File), c.sourceName()), Line: p.Line, Part: p.Part,
			Domain: p.Domain, Path: p.Path, Rule: descriptors.ReadablePath(p.Path), Severity: severity(p), Text: p.Text})
	}
	if f.config != nil {
		for _, domain := range f.config.DomainNames() {
			d.Domains = append(d.Domains, f.domain(domain))
		}
	}
	if len(c.Explain) == 0 || f.unreadable {
		return terminal.WriteJSON(out, d)
	}
	all, err := c.explanations(f.config)
	if err != nil {
		return err
	}
	d.Explanation = f.explanation(&all[0])
	if len(all) > 1 {
		for i := range all {
			d.Explanations = append(d.Explanations, f.explanation(&all[i]))
		}
		d.Request = f.requestLines(all)
	}
	return cmp.Or(terminal.WriteJSON(out, d), exit(all))
}

func (f *findings) explanation(e *descriptors.Explanation) *explanationDocument {
	d := &explanationDocument{Domain: e.Domain, Reason: e.Reason}
	for _, entry := range e.Descriptor {
		d.Descriptor = append(d.Descriptor, entry.String())
	}
	if r := e.Match.Rule; r != nil {
		rule := f.rule(r)
		d.Rule = &rule
		if !r.Unlimited {
			d.Key = string(e.Match.AppendKey(nil, e.Domain, e.Descriptor))
		}
	}
	return d
}

func (f *findings) domain(name string) domainDocument {
	d := domainDocument{Domain: name, Rules: []ruleDocument{}, Passes: []placedPath{}}
	rules, passes := f.config.DomainContent(name)
	for _, r := range rules {
		d.Rules = append(d.Rules, f.rule(r))
	}
	for _, p := range passes {
		d.Passes = append(d.Passes, f.placed(p.Path, p.Where))
	}
	return d
}

func (f *findings) placed(path, where string) placedPath {
	file, line := splitPlace(where)
	return placedPath{Path: path, Readable: descriptors.ReadablePath(path), File: f.path(file), Line: line}
}

// splitPlace splits file:line; a line of 0 is unknown.
func splitPlace(where string) (file string, line int) {
	if i := strings.LastIndexByte(where, ':'); i >= 0 {
		if n, err := strconv.Atoi(where[i+1:]); err == nil {
			return where[:i], n
		}
	}
	return where, 0
}

func (f *findings) rule(r *descriptors.Rule) ruleDocument {
	d := ruleDocument{placedPath: f.placed(r.Path, r.Where), Limits: []limitDocument{}, Unlimited: r.Unlimited, Shadow: r.Shadow,
		Quota: r.Quota, Lease: r.Lease, Name: r.Name, OnFailure: cmp.Or(r.OnFailure, f.onFailure).String(), Message: r.Message,
		Metadata: r.Metadata, Replaces: r.Replaces}
	for i := range r.Limits {
		l := &r.Limits[i]
		charge := "admitted"
		if r.Charge.Always(l) {
			charge = "always"
		}
		most, bound := r.Bound(l)
		d.Limits = append(d.Limits, limitDocument{Most: most, Bound: bound, Limit: l.String(), Requests: l.Requests, Unit: strings.ToLower(l.Unit.String()),
			Multiplier: l.Multiplier, Algorithm: l.Algorithm.String(), Window: l.Window.Seconds(), Precision: l.Precision.Seconds(),
			Burst: l.Burst, Name: l.Name, Charge: charge})
	}
	return d
}
