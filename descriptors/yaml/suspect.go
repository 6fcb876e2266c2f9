package yaml

import (
	"net/netip"
	"regexp"
	"slices"
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

// warnOfLookalike warns of a value that was meant to match more than its text. Files without lines come from a program,
// which means what it writes.
func (p *parser) warnOfLookalike(m mapping, key, value, path string) {
	if p.options.NoLines || value == key || slices.Contains(literalKeys, key) {
		return
	}
	if _, err := netip.ParsePrefix(value); err == nil && !namesRange.MatchString(key) {
		p.warnf(m.at("value"), path, "value %s matches only that text, not the addresses in it: have Envoy send the range that an "+
			"address is in, by its action masked_remote_address with v4_prefix_mask_len or v6_prefix_mask_len, and use the key "+
			"masked_remote_address", descriptors.Shown(value))
	} else if expression.MatchString(value) {
		p.warnf(m.at("value"), path, "value %s looks like a regular expression, but matches as it is written: only * has a "+
			"meaning, which is any characters or none", descriptors.Shown(value))
	}
}

// literalKeys are those for which Envoy's own configuration holds the value, so that it may be any text: the default ones
// of its actions generic_key, header_value_match and query_parameter_value_match, and the range that an address is in.
var literalKeys = []string{"generic_key", "header_match", "query_match", "masked_remote_address"}

var (
	// A regular expression: anchored, all there is, below a path, a class or an escape that is repeated, or a choice.
	expression = regexp.MustCompile(`^\^|^\.[*+]$|^/.+/\.[*+]|\[[^\]]+\][*+{]|\\[dwsDWS][*+{]|\\\.|\([^()]*\|[^()]*\)`)
	// Keys whose values are names of ranges, rather than addresses.
	namesRange = regexp.MustCompile(`(?i)cidr|net|range|block|zone`)
)
