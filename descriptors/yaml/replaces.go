package yaml

import (
	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// inReplaces is an item of a rate_limit's replaces.
var inReplaces = kind{"an item of replaces", []string{"name"}}

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
			p.file.replacements = append(p.file.replacements, replacement{path, name, item.Line})
		}
	}
	return names
}

// warnOfNothingReplaced warns of each replaced name that no limit of its domain has, once all files are read. Only these
// names stay with their file.
func (p *parser) warnOfNothingReplaced() {
	for i := range p.read {
		p.file = &p.read[i]
		var idle []replacement
		for _, r := range p.file.replacements {
			if _, there := p.names[descriptors.Entry{Key: p.file.domain, Value: r.name}]; !there {
				idle = append(idle, r)
				p.warnf(&yaml.Node{Line: r.line}, r.path, "replaces %s, but no limit of this domain has that name: correct it, "+
					"or leave it out", descriptors.Shown(r.name))
			}
		}
		p.file.replacements = idle
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
