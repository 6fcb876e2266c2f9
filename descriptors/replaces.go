package descriptors

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// inReplaces is an item of a rate_limit's replaces.
var inReplaces = place{"an item of replaces", []string{"name"}}

// ReplacedBy says whether the whole rule steps aside for others that replace these names: all of its limits do, or it is
// unlimited and has one of the names.
func (r *Rule) ReplacedBy(names []string) bool {
	if len(names) == 0 {
		return false
	}
	for i := range r.Limits {
		if !r.Limits[i].ReplacedBy(names) {
			return false
		}
	}
	return !r.Unlimited || (r.name != "" && slices.Contains(names, r.name))
}

// ReplacedBy says whether the limit has one of these names.
func (l *Limit) ReplacedBy(names []string) bool {
	return l.Name != "" && slices.Contains(names, l.Name)
}

// replacement is a name that a limit stands in for, and where in its file it says so.
type replacement struct {
	path, name string
	line       int
}

// replaces reads the names of the limits that a rate_limit of this name stands in for.
func (p *parser) replaces(m mapping, own, path string) []string {
	n := m.get("replaces")
	if n == nil || isNull(n) {
		return nil
	}
	var names []string
	for _, item := range p.list(n, "replaces", path) {
		if name, ok := p.replaced(item, path); ok {
			if name == own {
				p.errorf(item, path, "replaces should not contain name of same descriptor: a limit cannot stand in for itself")
			}
			names = append(names, name)
			p.replacements = append(p.replacements, replacement{path, name, item.Line})
		}
	}
	return names
}

// warnOfNothingReplaced warns of each replaced name that no limit of its domain has, once all files are read. Only these
// names stay with their file.
func (p *parser) warnOfNothingReplaced() {
	for i := range p.read {
		f := &p.read[i]
		p.file, p.domain = f.Name, f.domain
		var idle []replacement
		for _, r := range f.replacements {
			if _, there := p.names[Entry{Key: p.domain, Value: r.name}]; !there {
				idle = append(idle, r)
				p.warnf(&yaml.Node{Line: r.line}, r.path, "replaces %s, but no limit of this domain has that name: correct it, "+
					"or leave it out", shown(r.name))
			}
		}
		f.replacements = idle
	}
}

func (p *parser) replaced(n *yaml.Node, path string) (string, bool) {
	m, ok := p.mapping(n, inReplaces, path)
	if !ok {
		return "", false
	}
	before := p.errors
	name := p.needed(m, "name", path, "should not have an empty replaces entry: give the name of a limit")
	return name, p.errors == before
}
