package yaml

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

const (
	// maxNodes bounds the YAML nodes of a file, and so the memory for reading it.
	maxNodes = 1_000_000
	// maxName bounds the length of keys, values and names, in bytes; maxPath that of a rule's path, which is part of
	// metric names in packets of up to 64 KiB; maxMessage that of a message.
	maxName    = 4096
	maxPath    = 16 << 10
	maxMessage = 64 << 10
)

// document parses the only YAML document of a file, and returns its root, nil if there is none.
func (p *parser) document(data []byte) *yaml.Node {
	roots, line, err := Documents(data)
	switch {
	case len(roots) > 0:
	case err == nil:
		p.errorf(&yaml.Node{}, "no domain: the file is empty")
		return nil
	case errors.Is(err, errTooManyNodes):
		p.errorf(&yaml.Node{}, "%v", err)
		return nil
	default:
		line, text := findFault(data, line, err)
		p.errorf(&yaml.Node{Line: line}, "%s", text)
		return nil
	}
	second := 0 // line of the second document
	if len(roots) > 1 {
		second = roots[1].Line
		if content := roots[1].Content; len(content) > 0 {
			second = content[0].Line // the root's line may be the one before
		}
	} else if err != nil {
		second = line + 1 // the library counts from 0 after the first document
	}
	if second > 0 {
		p.lostLimitf(&yaml.Node{Line: second}, "text after the first YAML document is ignored: write one document a file, and begin its "+
			"keys alike")
	}
	return roots[0]
}

// spend adds the cost of a node to the expanded size of the files. It returns false, and adds one error, if that
// exceeds maxExpanded.
func (p *parser) spend(at *yaml.Node, cost int) bool {
	within := p.expanded <= maxExpanded
	p.expanded += cost
	if within && p.expanded > maxExpanded {
		path := p.path
		p.path = "" // the file is at fault
		p.errorf(at, "too much configuration: with its YAML aliases followed it takes over %d MiB", maxExpanded>>20)
		p.path = path
	}
	return p.expanded <= maxExpanded
}

// mapping is a YAML mapping that was parsed by the keys of a keySet.
type mapping struct {
	node       *yaml.Node
	in         *keySet
	fields     map[string]field // by key of the set
	unknown    []*yaml.Node     // other keys
	duplicates [][2]*yaml.Node  // repeated keys, each with the key that it overrides
}

type field struct {
	key, value *yaml.Node
	merged     bool // from a merge key (<<)
}

// get returns a key's value, nil if the mapping lacks it.
func (m *mapping) get(name string) *yaml.Node { return m.fields[name].value }

// at returns the node that a message about a key refers to: the key, or the mapping if it lacks the key.
func (m *mapping) at(name string) *yaml.Node { return cmp.Or(m.fields[name].key, m.node) }

// mapping parses n, and adds problems for unknown and repeated keys. It returns false if the caller must not use the
// mapping.
func (p *parser) mapping(n *yaml.Node, in *keySet) (mapping, bool) {
	m, ok := p.uncheckedMapping(n, in)
	p.checkKeys(&m)
	return m, ok
}

// uncheckedMapping is mapping without these problems, for a mapping that has to be parsed before its path is known.
func (p *parser) uncheckedMapping(n *yaml.Node, in *keySet) (mapping, bool) {
	n = ResolveAlias(n)
	if n.Kind != yaml.MappingNode {
		found, remedy := describe(n), ""
		if in == inFile && n.Kind == yaml.ScalarNode {
			found = "a text" // the text may be a secret
		} else if in == inRateLimit && n.Kind == yaml.SequenceNode {
			remedy = ": several limits stand in rate_limits"
		}
		p.errorf(n, "%s must be a mapping (key: value), not %s%s", in.name, found, remedy)
		return mapping{}, false
	}
	m := mapping{node: n, in: in, fields: make(map[string]field)}
	p.collect(&m, n, 0)
	maps.DeleteFunc(m.fields, func(name string, f field) bool { // generators write null for fields that are not set
		return name != "value" && isNull(f.value) && f.value.Value != ""
	})
	return m, p.expanded <= maxExpanded
}

// collect adds the keys of n to m; depth counts the merge keys (<<) around n. As in envoyproxy/ratelimit, the last
// value of a key wins, even if it comes from a merge.
func (p *parser) collect(m *mapping, n *yaml.Node, depth int) {
	for key, value := range Pairs(n) {
		if !p.spend(n, 2*nodeCost) {
			return
		}
		switch {
		case isMerge(key):
			for _, source := range p.merged(value, depth+1) {
				p.collect(m, source, depth+1)
			}
		case m.in.has(key):
			if old := m.fields[key.Value]; old.key != nil && !old.merged {
				m.duplicates = append(m.duplicates, [2]*yaml.Node{key, old.key})
			}
			m.fields[key.Value] = field{key, value, depth > 0}
		default:
			m.unknown = append(m.unknown, key)
		}
	}
}

// merged returns the mappings in the value n of a merge key: a mapping, or a list of mappings in reverse, as the first
// one must win. depth counts the merge keys, mappings and lists around n.
func (p *parser) merged(n *yaml.Node, depth int) (sources []*yaml.Node) {
	if depth > maxDepth {
		p.errorf(n, "<< merges nest deeper than %d levels", maxDepth)
		return nil
	}
	named := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		named = p.list(n, "<<")
	}
	for _, source := range slices.Backward(named) {
		if source = ResolveAlias(source); source.Kind != yaml.MappingNode {
			p.errorf(source, "<< must name a mapping, not %s", describe(source))
			continue
		}
		sources = append(sources, source)
	}
	return sources
}

// list returns the items of n. name is its name in messages.
func (p *parser) list(n *yaml.Node, name string) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		p.errorf(n, "%s must be a list, not %s", name, describe(n))
		return nil
	}
	if !p.spend(n, nodeCost*len(n.Content)) {
		return nil
	}
	return n.Content
}

// text returns a field as it is written: 404 and true are texts; null and a missing field are "".
func (p *parser) text(m mapping, name string) string {
	n := m.get(name)
	if n == nil || isNull(n) {
		return ""
	}
	limit := maxName
	if name == "message" {
		limit = maxMessage
	}
	switch {
	case n.Kind != yaml.ScalarNode:
		p.errorf(n, "%s must be a text, not %s", name, describe(n))
	case len(n.Value) > limit:
		p.errorf(n, "%s is %d bytes long: at most %d are allowed", name, len(n.Value), limit)
	case slices.Contains(ratelimitKeys, name) && !plainText(n):
		p.errorf(n, "%s is the number %s, which envoyproxy/ratelimit does not take here: put it into quotes", name,
			descriptors.Abbreviate(n.Value))
	default:
		return n.Value
	}
	return ""
}

// checkCharacters adds a problem for a character in a field that requests hardly have, or that is invisible in a file.
func (p *parser) checkCharacters(m mapping, name string) {
	n := m.get(name)
	if n == nil {
		return
	}
	odd := func(r rune) bool { return !unicode.IsPrint(r) || '\u2018' <= r && r <= '\u201F' }
	text := []rune(n.Value)
	if i := slices.IndexFunc(text, unicode.IsControl); i >= 0 {
		p.lostLimitf(n, "%s holds the control character %U: leave it out", name, text[i])
	} else if i := slices.IndexFunc(text, odd); i >= 0 {
		p.warnf(n, "%s holds %U, which is a curly quote or cannot be seen: only requests with the same character match", name, text[i])
	}
}

// plainText reports whether envoyproxy/ratelimit accepts a scalar as text: it may be no fraction and no number beyond
// 64 bits.
func plainText(n *yaml.Node) bool {
	var v int64
	return n.Tag != "!!float" && (n.Tag != "!!int" || n.Decode(&v) == nil)
}

// required returns the text of a required field. missing is the error if it is empty.
func (p *parser) required(m mapping, name, missing string) string {
	before := p.errors
	text := p.text(m, name)
	if text == "" && p.errors == before {
		p.errorf(m.at(name), "%s", missing)
	}
	return text
}

// enum returns a field that parse parses, the zero value if it is missing or invalid.
func enum[T any](p *parser, m mapping, name string, parse func(string) (T, error)) (v T) {
	n, before := m.get(name), p.errors
	text := p.text(m, name)
	if n == nil || p.errors > before {
		return v
	}
	v, err := parse(text)
	if err != nil {
		p.errorf(n, "%s: %v", name, err)
	}
	return v
}

// boolean returns a field that is true or false, or another word for these in YAML 1.1; false if it is missing.
func (p *parser) boolean(m mapping, name string) bool {
	n := m.get(name)
	switch {
	case n == nil:
	case isNull(n):
		p.warnf(n, "%s is empty, which means false", name)
	default:
		v, ok := booleans[n.Value]
		if ok && n.Kind == yaml.ScalarNode && n.Style&quotes == 0 {
			return v
		}
		p.errorf(n, "%s must be true or false%s, not %s", name, unquoted(n), describe(n))
	}
	return false
}

// booleans are the words of YAML 1.1 for true and false.
var booleans = map[string]bool{
	"true": true, "True": true, "TRUE": true, "yes": true, "Yes": true, "YES": true,
	"on": true, "On": true, "ON": true, "y": true, "Y": true,
	"false": false, "False": false, "FALSE": false, "no": false, "No": false, "NO": false,
	"off": false, "Off": false, "OFF": false, "n": false, "N": false,
}

const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// unquoted returns a phrase for a message about n if n is quoted, else "".
func unquoted(n *yaml.Node) string {
	if n.Style&quotes == 0 {
		return ""
	}
	return ", without quotes"
}

// wholeNumber returns a field that is an integer from least to 2^32 - 1; 0 if it is missing or invalid.
func (p *parser) wholeNumber(m mapping, name string, least uint32) uint32 {
	n := m.get(name)
	if n == nil || isNull(n) && least == 0 {
		return 0
	}
	var v uint32
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&v) != nil || v < least {
		p.errorf(n, "%s must be a whole number from %d to 4294967295%s, not %s", name, least, unquoted(n), describe(n))
		return 0
	}
	return v
}

// ResolveAlias returns the target of an alias, or n if it is no alias.
func ResolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Pairs yields the keys and values of a mapping or its alias. It resolves aliases among them.
func Pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	content := ResolveAlias(n).Content
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(content); i += 2 {
			if !yield(ResolveAlias(content[i]), ResolveAlias(content[i+1])) {
				return
			}
		}
	}
}

func isNull(n *yaml.Node) bool  { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
func isMerge(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!merge" }

// describe describes n for a message.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case isNull(n):
		return "empty"
	}
	return descriptors.Quote(n.Value)
}
