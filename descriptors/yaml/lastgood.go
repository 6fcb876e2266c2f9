package yaml

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// LastGood is what a configuration in force was made of: the last good form of each domain. It is immutable. Make one
// with [NewLastGood]; the zero value is that of zero [Options].
type LastGood struct {
	options  Options
	domains  map[string]form
	broken   []string          // domains that files name, but that never had a good form; sorted
	inForce  bool              // something is, if only a configuration without domains
	domainOf map[string]string // the domain of each file that is there, as it was last known
}

// form is a domain that has no errors. Configurations share it: neither its tree nor its rules ever change.
type form struct {
	domain *descriptors.Domain
	files  []readFile // in the order of their names
}

// NewLastGood holds nothing yet. All its updates are read with these options.
func NewLastGood(o Options) *LastGood { return &LastGood{options: o} }

// Update is what [LastGood.Update] makes of the files as they are now.
type Update struct {
	// Config is nil if there is nothing to put in force: no domain has ever been good, or errors leave all as it was.
	Config   *descriptors.Config
	LastGood *LastGood // to go on from, once Config is in force
	Kept     []string  // domains that have errors and keep their last good form, sorted
	Unknown  []string  // files with errors whose domain is unknown, sorted
	Problems Problems
	Err      error // of a source: why it cannot read files at all
}

// Update reads the files as they are now, and lets a file that is wrong break no more than its domain. A domain is bad
// if any of its files is: then it keeps its last good form, whole, or is known as broken if it never had one. A file
// that does not parse, or whose name is among the unreadable or below one of them, belongs to the domain of its last
// content; one that names another domain and is wrong belongs to both. Domains whose files have gone are left out. All
// files are read again: 10,000 rules take about 0.3 s.
func (h *LastGood) Update(files []File, unreadable []string) Update {
	p := newParser(h.options)
	for _, f := range slices.SortedStableFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) }) {
		p.readFile(f)
	}
	p.finish()
	next := &LastGood{options: h.options, domains: make(map[string]form), domainOf: make(map[string]string)}
	bad := make(map[string]bool) // every domain that a file claims, and whether it is bad
	var unknown []string
	for _, f := range p.read {
		domain := cmp.Or(f.domain, h.domainOf[f.Name])
		if domain == "" {
			domain = domainLine(f.Data)
		}
		if domain == "" {
			unknown = append(unknown, f.Name)
			continue
		}
		next.domainOf[f.Name] = domain
		bad[domain] = bad[domain] || f.bad
		next.domains[domain] = form{p.domains[domain], append(next.domains[domain].files, f)}
	}
	for name, domain := range h.domainOf {
		if _, there := next.domainOf[name]; !there && within(name, unreadable) {
			next.domainOf[name] = domain
			bad[domain] = true
		}
	}
	h.keepFormerDomains(p.read, next, bad)
	unknown = append(unknown, slices.DeleteFunc(slices.Clone(unreadable), h.hadDomain)...)
	slices.Sort(unknown)
	r := Update{LastGood: next, Unknown: unknown, Problems: p.problems}
	h.keepBad(&r, bad)
	if p.errors+len(unreadable) > 0 && (next.Same(h) || len(next.domains) == 0 && !h.inForce) {
		return r
	}
	next.inForce = true
	next.build(&r)
	return r
}

// keepBad gives each bad domain its last good form, or makes it known as broken.
func (h *LastGood) keepBad(r *Update, bad map[string]bool) {
	next := r.LastGood
	for _, domain := range slices.Sorted(maps.Keys(bad)) {
		last, wasGood := h.domains[domain]
		switch {
		case !bad[domain]:
		case wasGood:
			next.domains[domain] = last
			r.Kept = append(r.Kept, domain)
		default:
			delete(next.domains, domain)
			next.broken = append(next.broken, domain)
		}
	}
}

// hadDomain reports whether a file of that name, or below it, had a domain.
func (h *LastGood) hadDomain(name string) bool {
	for file := range h.domainOf {
		if within(file, []string{name}) {
			return true
		}
	}
	return false
}

// keepFormerDomains keeps the former domain of a file that names a bad one now: nobody has deleted it.
func (h *LastGood) keepFormerDomains(files []readFile, next *LastGood, bad map[string]bool) {
	for _, f := range files {
		was := h.domainOf[f.Name]
		if _, wasGood := h.domains[was]; wasGood && bad[next.domainOf[f.Name]] {
			next.domainOf[f.Name] = was
			if _, claimed := bad[was]; !claimed {
				bad[was] = true
			}
		}
	}
}

// build makes the update's Config of the last good forms, unless together they are too much.
func (h *LastGood) build(r *Update) {
	all := slices.SortedFunc(maps.Values(h.domains), func(a, b form) int {
		return cmp.Or(cmp.Compare(a.files[0].Name, b.files[0].Name), // a kept file's name may be used again
			cmp.Compare(a.domain.Name, b.domain.Name))
	})
	var domains []*descriptors.Domain
	expanded := 0
	for _, v := range all {
		domains = append(domains, v.domain)
		for _, f := range v.files {
			expanded += f.expanded
		}
	}
	if expanded > maxExpanded { // each form was good
		r.Problems = append(r.Problems, Problem{Text: fmt.Sprintf("too much configuration: beside the last good form of %s "+
			"it takes over %d MiB, with its YAML aliases followed", descriptors.Listed(r.Kept), maxExpanded>>20)})
		return
	}
	r.Config = descriptors.NewConfig(h.options.Keys, domains, h.broken)
}

// Same reports whether h and g are made of the same files, so that they make the same configuration.
func (h *LastGood) Same(g *LastGood) bool {
	return slices.Equal(h.broken, g.broken) && maps.EqualFunc(h.domains, g.domains, func(a, b form) bool {
		return slices.EqualFunc(a.files, b.files, func(a, b readFile) bool {
			return a.Name == b.Name && bytes.Equal(a.Data, b.Data)
		})
	})
}

// within reports whether a file is one of those named, or lies below one. The name . stands for the directory of all.
func within(file string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == "." || strings.HasPrefix(file+"/", name+"/")
	})
}

// domainKey is a key domain on a line of its own, as YAML's plain form has it at the top of a file, with what stands behind it.
var domainKey = regexp.MustCompile(`(?m)^["']?domain["']?[ \t]*:([ \t].*)?$`)

// domainLine returns the domain that a file which is not YAML seems to configure, by its last line domain:, or "".
func domainLine(data []byte) string {
	var value []byte
	for _, found := range domainKey.FindAllSubmatch(bytes.TrimPrefix(data, []byte("\ufeff")), -1) {
		value = found[1]
	}
	var n yaml.Node
	if len(value) == 0 || len(value) > maxName || yaml.Unmarshal(value, &n) != nil || len(n.Content) == 0 ||
		n.Content[0].Kind != yaml.ScalarNode || isNull(n.Content[0]) {
		return ""
	}
	return n.Content[0].Value
}
