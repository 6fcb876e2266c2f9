package yaml

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// maxCompared is how many patterns of a level, from the first, are compared with those after them.
const maxCompared = 100

// child hangs a child below parent, and complains of one that is there already, or that others hide.
func (p *parser) child(n *yaml.Node, parent *descriptors.Node, key, value, path, where string) *descriptors.Node {
	child, fresh := parent.Add(key, value, where)
	if !fresh {
		p.errorf(n, path, "the same key and value are already configured at %s: keep one, and write rate_limits: for both",
			descriptors.Printable(child.Where))
		return &descriptors.Node{}
	}
	if strings.Contains(key+value, "*") {
		p.warnOfHidden(n, parent, descriptors.Entry{Key: key, Value: value}, path)
	}
	return child
}

// warnOfHidden warns if one of the first patterns of parent fits all that own can fit, which was added last.
func (p *parser) warnOfHidden(n *yaml.Node, parent *descriptors.Node, own descriptors.Entry, path string) {
	compared := 0
	for first, child := range parent.Children() {
		if compared++; first == own || compared > maxCompared {
			return
		}
		// A star in own's text is fitted by a star only, which fits whatever it stands for.
		if first.Fits(own) && (first.Value == "" || own.Value != "") {
			p.warnf(n, path, "this never applies: the pattern at %s stands before it and fits all that this one fits",
				descriptors.Printable(child.Where))
			return
		}
	}
}

// warnOfValue warns of a value that is there, but lets any value match.
func (p *parser) warnOfValue(m mapping, path string) {
	switch v := m.get("value"); {
	case v == nil || v.Kind != yaml.ScalarNode:
	case isNull(v) && v.Value != "":
		p.warnf(v, path, "value: %s is YAML's null, so any value matches: quote it to match the text",
			descriptors.Shown(v.Value))
	case v.Value == "":
		p.warnf(v, path, "value is empty, so any value matches: leave it out")
	}
}

// position is a place in a file: as people are told it, and its line.
type position struct {
	where string
	line  int
}

// warnOfName warns if the limit's name is that of another limit of the domain.
func (p *parser) warnOfName(m mapping, name, path string) {
	if name == "" {
		return
	}
	at := m.get("name")
	id, here := descriptors.Entry{Key: p.file.domain, Value: name}, position{p.where(at), at.Line}
	switch other, known := p.names[id]; {
	case !known:
		p.names[id] = here
	case other != here: // an alias is the same line again
		p.warnf(at, path, "the name %s is already that of the limit at %s", descriptors.Shown(name),
			descriptors.Printable(other.where))
	}
}
