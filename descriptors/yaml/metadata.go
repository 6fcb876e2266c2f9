package yaml

import (
	"maps"
	"math"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// metadata parses a rule's metadata, which Envoy gets with each request that passes; nil for none.
func (p *parser) metadata(m mapping) map[string]any {
	switch n := m.get("metadata"); {
	case n == nil || isNull(n):
	case n.Kind != yaml.MappingNode:
		p.errorf(n, "metadata must be a mapping (key: value), not %s", describe(n))
	default:
		return p.anyMapping(n, 0)
	}
	return nil
}

// anyMapping parses a mapping with any texts as keys. The last value of a key wins, even if it comes from a merge.
func (p *parser) anyMapping(n *yaml.Node, depth int) map[string]any {
	all, own := make(map[string]any), make(map[string]bool)
	for key, value := range Pairs(n) {
		if !p.spend(n, 2*nodeCost) {
			break
		}
		switch {
		case isMerge(key):
			for _, source := range p.merged(value, depth+1) {
				maps.Copy(all, p.anyMapping(source, depth+1))
			}
		case key.Kind != yaml.ScalarNode || isNull(key):
			p.errorf(key, "a key in metadata must be a word, not %s", describe(key))
		default:
			if own[key.Value] {
				p.warnf(key, "%s is given twice in metadata: the last one holds", descriptors.Quote(key.Value))
			}
			all[key.Value], own[key.Value] = p.anyValue(value, depth+1), true
		}
	}
	return all
}

// anyValue parses a JSON value: nil, bool, float64, string, []any or map[string]any.
func (p *parser) anyValue(n *yaml.Node, depth int) any {
	if depth > maxDepth {
		p.errorf(n, "metadata nests deeper than %d levels", maxDepth)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		return p.anyMapping(n, depth)
	case yaml.SequenceNode:
		all := make([]any, 0, len(n.Content))
		for _, item := range p.list(n, "metadata") {
			all = append(all, p.anyValue(ResolveAlias(item), depth+1))
		}
		return all
	}
	if !p.spend(n, len(n.Value)) {
		return nil
	}
	return p.anyScalar(n)
}

func (p *parser) anyScalar(n *yaml.Node) any {
	flag, isFlag := booleans[n.Value]
	switch {
	case n.Tag == "!!null":
		return nil
	case isFlag && (n.Tag == "!!bool" || n.Style&(quotes|yaml.TaggedStyle) == 0):
		return flag
	case n.Tag == "!!int", n.Tag == "!!float":
		var v float64
		if n.Decode(&v) != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			p.errorf(n, "metadata holds %s, which is not a number that JSON has", descriptors.Quote(n.Value))
		}
		return v
	}
	return n.Value
}
