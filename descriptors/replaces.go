package descriptors

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// inReplaces is an item of a rate_limit's replaces.
var inReplaces = place{"an item of replaces", []string{"name"}}

// ReplacedBy says whether the rule steps aside for others that replace these names: one of its limits has one of them.
func (r *Rule) ReplacedBy(names []string) bool {
	if len(names) == 0 {
		return false
	}
	if r.name != "" && slices.Contains(names, r.name) {
		return true
	}
	return slices.ContainsFunc(r.Limits, func(l Limit) bool { return l.Name != "" && slices.Contains(names, l.Name) })
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
		}
	}
	return names
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
