package descriptors

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Held is what a configuration in force was made of: the files of the last good form of each domain. The zero value
// holds nothing. It is immutable.
type Held struct {
	domains map[string][]File // the last good form of each domain
	broken  []string          // domains that files name, but that never had a good form; sorted
	of      map[string]string // the domain of each file that is there, as it was last known
}

// Renewal is what [Held.Renew] makes of the files as they are now.
type Renewal struct {
	// Config is nil if there is nothing to put in force: no domain has ever been good, or errors leave all as it was.
	Config   *Config
	Held     *Held    // to go on from, once Config is in force
	Kept     []string // domains that have errors and keep their last good form, sorted
	Problems Problems
}

// Renew reads the files as they are now, and lets a file that is wrong break no more than its domain. A domain is bad
// if any of its files is: then it keeps its last good form, whole, or is known as broken if it never had one. A file
// that does not parse, or whose name is among the unreadable or below one of them, belongs to the domain of its last
// content. Domains whose files have gone are left out.
func (h *Held) Renew(files []File, unreadable []string, o Options) Renewal {
	p := readAll(files, o, 0)
	next := &Held{domains: make(map[string][]File), of: make(map[string]string)}
	bad := make(map[string]bool) // every domain that a file claims, and whether it is bad
	for _, f := range p.read {
		domain := cmp.Or(f.domain, h.of[f.Name], domainLine(f.Data))
		if domain == "" {
			continue
		}
		next.of[f.Name] = domain
		bad[domain] = bad[domain] || f.bad
		next.domains[domain] = append(next.domains[domain], f.File)
	}
	for name, domain := range h.of {
		if _, there := next.of[name]; !there && within(name, unreadable) {
			next.of[name] = domain
			bad[domain] = true
		}
	}
	r := Renewal{Held: next, Problems: p.problems}
	for _, domain := range slices.Sorted(maps.Keys(bad)) {
		last := h.domains[domain]
		switch {
		case !bad[domain]:
		case last != nil:
			next.domains[domain] = last
			r.Kept = append(r.Kept, domain)
		default:
			delete(next.domains, domain)
			next.broken = append(next.broken, domain)
		}
	}
	if p.errors+len(unreadable) == 0 {
		r.Config = p.config
		return r
	}
	if next.same(h) || len(next.domains)+len(h.domains) == 0 {
		return r
	}
	good := slices.DeleteFunc(p.read, func(f readFile) bool { return f.domain == "" || bad[f.domain] })
	return next.rebuild(r, p.config, good, o)
}

// rebuild makes the renewal's Config of the files that are good, which read has the trees of, and of the last form of
// the domains that are kept. Only these are read again: no rule of the configuration in force is used, as its place
// would change under those who have it.
func (h *Held) rebuild(r Renewal, read *Config, good []readFile, o Options) Renewal {
	unfolded := 0
	for _, f := range good {
		unfolded += f.unfolded
	}
	var last []File
	for _, domain := range r.Kept {
		last = append(last, h.domains[domain]...)
	}
	p := readAll(last, o, unfolded)
	if p.errors > 0 { // each form was good, but together they are too much
		r.Problems = append(r.Problems, p.problems...)
		return r
	}
	c := p.config
	c.rules, c.passes, c.broken = nil, nil, h.broken
	all := append(p.read, good...)
	slices.SortStableFunc(all, func(a, b readFile) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range all {
		c.rules, c.passes = append(c.rules, f.rules...), append(c.passes, f.passes...)
	}
	for _, f := range good {
		c.domains[f.domain] = read.domains[f.domain]
	}
	for i, rule := range c.rules {
		rule.Number = i
	}
	r.Config = c
	return r
}

// same says whether h and g make the same configuration.
func (h *Held) same(g *Held) bool {
	return slices.Equal(h.broken, g.broken) && maps.EqualFunc(h.domains, g.domains, func(a, b []File) bool {
		return slices.EqualFunc(a, b, func(a, b File) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
	})
}

// within says whether a file is one of those named, or lies below one. The name . stands for the directory of all.
func within(file string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == "." || file == name || strings.HasPrefix(file, name+"/")
	})
}

// domainLine is the domain that a file which is not YAML seems to configure: that of the first line that begins with
// domain: on its own. It is "" if there is none.
func domainLine(data []byte) string {
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		if !bytes.HasPrefix(line, []byte("domain:")) || len(line) > maxName {
			continue
		}
		var m struct {
			Domain yaml.Node `yaml:"domain"`
		}
		if yaml.Unmarshal(line, &m) != nil || m.Domain.Kind != yaml.ScalarNode || isNull(&m.Domain) {
			return ""
		}
		return m.Domain.Value
	}
	return ""
}

// Told is what a renewal with errors means for requests, as one line for a log; "" if it means nothing.
func (r *Renewal) Told() string {
	var parts []string
	if len(r.Kept) > 0 {
		parts = append(parts, "keep their last good form: "+listed(r.Kept))
	}
	if len(r.Held.broken) > 0 {
		parts = append(parts, "never had a good form, so that requests cannot be decided: "+listed(r.Held.broken))
	}
	return strings.Join(parts, "; ")
}

// listed names up to ten domains.
func listed(domains []string) string {
	some := make([]string, 0, maxSiblings)
	for _, d := range domains[:min(len(domains), maxSiblings)] {
		some = append(some, shown(d))
	}
	if more := len(domains) - len(some); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(some, ", "), more)
	}
	return strings.Join(some, ", ")
}
