package descriptors

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxCompared is how many patterns of a level, from the first, are compared with those after them.
	maxCompared = 100
	// maxComparedBytes and maxComparedStars are what patterns that are compared have at most, key and value together: what
	// a comparison takes grows with both.
	maxComparedBytes, maxComparedStars = 256, 8
)

// composite is a child of a level by the name that envoyproxy/ratelimit has for it.
type composite struct {
	parent *node
	name   string
}

// add hangs a child below parent, and reports one that is there already, or that others hide.
func (p *parser) add(n *yaml.Node, parent *node, key, value, path string) *node {
	child, fresh := parent.add(key, value, p.where(n))
	if !fresh {
		p.errorf(n, path, "the same key and value are already configured at %s", printable(child.where))
		return &node{}
	}
	name := key
	if value != "" {
		name += "_" + value
	}
	id := composite{parent, name}
	if other, taken := p.composites[id]; taken {
		p.warnf(n, path, "envoyproxy/ratelimit takes this for the descriptor at %s given twice, and refuses the "+
			"file: weir compares keys and values apart", printable(other))
	} else {
		p.composites[id] = child.where
	}
	if strings.Contains(name, "*") {
		p.warnOfHidden(n, parent, path)
	}
	return child
}

// warnOfHidden warns if one of the first patterns of parent fits all that the last one can fit.
func (p *parser) warnOfHidden(n *yaml.Node, parent *node, path string) {
	before := parent.patterns.all[:len(parent.patterns.all)-1]
	last := &parent.patterns.all[len(before)]
	if !last.isPlain() {
		return
	}
	for i := range before[:min(len(before), maxCompared)] {
		first := &before[i]
		if !first.isPlain() {
			continue
		}
		// A star in the last one's text is fitted by a star only, which fits whatever it stands for.
		if glob(first.key, last.key) && (first.value == "" || last.value != "" && glob(first.value, last.value)) {
			p.warnf(n, path, "this never applies: the pattern at %s stands before it and fits all that this one fits",
				printable(first.next.where))
			return
		}
	}
}

// isPlain says whether a pattern is compared with others, as any that people write.
func (p *pattern) isPlain() bool {
	return len(p.key)+len(p.value) <= maxComparedBytes &&
		strings.Count(p.key, "*")+strings.Count(p.value, "*") <= maxComparedStars
}

// warnOfValue warns of a value that looks like one, but lets any value match.
func (p *parser) warnOfValue(m mapping, path string) {
	switch v := m.get("value"); {
	case v == nil || v.Kind != yaml.ScalarNode:
	case isNull(v) && v.Value != "":
		p.warnf(v, path, "value: %s is YAML's null, so any value matches: quote it to match the text", shown(v.Value))
	case v.Value == "":
		p.warnf(v, path, "value is empty, so any value matches: leave it out")
	}
}

// warnOfName warns if the limit's name is that of another limit of the domain.
func (p *parser) warnOfName(m mapping, name, path string) {
	if name == "" {
		return
	}
	at := m.get("name")
	id := Entry{Key: p.domain, Value: name}
	switch other, taken := p.names[id]; {
	case !taken:
		p.names[id] = p.where(at)
	case other != p.where(at): // an alias is the same place again
		p.warnf(at, path, "the name %s is already that of the limit at %s", shown(name), printable(other))
	}
}
