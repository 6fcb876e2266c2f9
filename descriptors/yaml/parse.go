// Package yaml parses and checks descriptor files.
//
// [LastGood.Update] parses files after each change; an error in a file affects only its domain. FORMAT.md, beside
// package descriptors, describes the files.
package yaml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// File is a configuration file.
type File struct {
	Name string // for messages
	Data []byte
	Part *Part // set if it is a part of another file, to which messages then refer
}

// Options are settings for all files. The zero value is the default.
type Options struct {
	Algorithm descriptors.Algorithm // for limits without an algorithm; 0: SlidingWindow
	Keys      descriptors.Keys      // for the keys of counters
	// Lenient makes warnings of errors that envoyproxy/ratelimit does not have: names that do not fit into a header, and a
	// rate_limit without effect, as it is empty, repeated or misplaced.
	Lenient bool
	NoLogs  string // the error for a limit with algorithm sliding_log, "" if it is allowed
	Merge   bool   // merge the files of a domain, in the order of their names; else several are an error
	NoLines bool   // messages name no lines, as nobody sees the files
}

// Part is the position of a file in another one, such as that of an entry in the manifest of a ConfigMap.
type Part struct {
	File string             // name of the whole file
	Name string             // name of the part, for messages
	Line func(line int) int // converts a line of the part, from 1, to a line of the whole file; 0 to the beginning of the part
}

const (
	// maxDepth bounds how deep descriptors may nest. It also stops YAML aliases that contain themselves.
	maxDepth = 100
	// maxExpanded bounds the size of all files with their YAML aliases resolved, roughly in bytes.
	maxExpanded = 64 << 20
	nodeCost    = 32
	// maxProblems bounds the reported errors, and the reported warnings.
	maxProblems = 1000
	// maxLimits bounds the limits of a rule, each of which is checked on every request.
	maxLimits = 16
	// maxTried is how many patterns of a level one value may be compared with before there is a warning.
	maxTried = 300
)

// parsedFile is a file and the result of parsing it.
type parsedFile struct {
	File
	domain   string // "" if unknown
	bad      bool   // the file has errors
	expanded int    // size as for maxExpanded
}

// parser has the results of the files parsed so far, and the present position.
type parser struct {
	options  Options
	domains  map[string]*descriptors.Domain
	expanded int // size of the files parsed so far, as for maxExpanded

	parsed       []parsedFile
	file         *parsedFile // the present file
	path         string      // path of the present descriptor; "" outside one
	replacements []replacement
	names        map[[2]string]bool // by domain and name: a limit has this name

	problems         Problems
	errors, warnings int // numbers of all, including those that are not reported
}

func newParser(o Options) *parser {
	o.Algorithm = cmp.Or(o.Algorithm, descriptors.SlidingWindow)
	return &parser{options: o, domains: make(map[string]*descriptors.Domain), names: make(map[[2]string]bool)}
}

func (p *parser) parseFile(f File) {
	p.file, p.path = &parsedFile{File: f}, ""
	errors, expanded := p.errors, p.expanded
	p.parseData(f.Data)
	if p.expanded > maxExpanded {
		p.expanded = expanded // an error of this file only
	}
	p.file.bad, p.file.expanded = p.errors > errors, p.expanded-expanded
	p.parsed = append(p.parsed, *p.file)
}

func (p *parser) finish() {
	p.warnOfNothingReplaced()
	slices.SortStableFunc(p.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	if more := max(0, p.errors-maxProblems) + max(0, p.warnings-maxProblems); more > 0 {
		p.problems = append(p.problems, Problem{Text: fmt.Sprintf("and %d more problems", more), Warning: true})
	}
}

func (p *parser) parseData(data []byte) {
	root := p.document(data)
	if root == nil {
		return
	}
	if kind := ManifestKind(root); kind != "" {
		p.errorf(root, "this is a Kubernetes manifest, not a descriptor file: keep its %s out of the directory that weir reads. "+
			"weir check FILE checks the files that a ConfigMap holds", descriptors.Abbreviate(kind))
		return
	}
	m, ok := p.uncheckedMapping(root, inFile)
	if !ok {
		return
	}
	name := p.required(m, "domain", "no domain: begin the file with domain: and its name")
	p.file.domain = name
	p.checkCharacters(m, "domain")
	if len(m.fields) > 0 { // else it is no descriptor file, and its keys may be secrets, as in /etc/shadow
		p.checkKeys(&m)
	}
	domain := &descriptors.Domain{Name: name, Where: p.where(m.node)}
	switch other := p.domains[name]; {
	case other != nil && p.options.Merge:
		domain = other
	case other != nil:
		p.errorf(m.at("domain"), "this domain is already configured at %s: keep a domain in one file, or set "+
			"MERGE_DOMAIN_CONFIG=true", descriptors.Printable(other.Where))
	case name != "":
		p.domains[name] = domain
	}
	domain.Refunds = p.boolean(m, "refund_on_deny") || domain.Refunds // it is enough to set it in one file of a domain
	p.descriptors(m, level{domain: domain, node: &domain.Root})
}

// level is the position of a list of descriptors, and the settings of the descriptors above it.
type level struct {
	domain   *descriptors.Domain
	node     *descriptors.Node // the node above the list
	path     string            // path of that node
	depth    int               // number of entries above
	values   []int             // Rule.Values of the entries above
	patterns []string          // Rule.Patterns of the entries above
}

// descriptors parses the list descriptors, if any, and returns the number of its items.
func (p *parser) descriptors(m mapping, in level) int {
	list := m.get("descriptors")
	if list == nil || isNull(list) {
		return 0
	}
	if in.depth >= maxDepth {
		p.errorf(m.at("descriptors"), "descriptors nest deeper than %d levels", maxDepth)
		return 0
	}
	items, before := p.list(list, "descriptors"), in.node.PatternsTried()
	for _, item := range items {
		p.descriptor(item, in)
	}
	if n := in.node.PatternsTried(); n > max(before, maxTried) {
		p.path = in.path
		p.warnf(m.at("descriptors"), "a value is compared with up to %d patterns here, because they begin alike up to their first *, "+
			"have text between stars, or a * in the key: write them without these", n)
	}
	return len(items)
}

func (p *parser) descriptor(n *yaml.Node, in level) {
	p.path = in.path
	m, ok := p.uncheckedMapping(n, inDescriptor)
	if !ok {
		return
	}
	key := p.required(m, "key", "a descriptor needs a key: it is missing or empty")
	value := p.text(m, "value")
	if key == "" {
		in.node, key = &descriptors.Node{}, "?" // go on, to report further errors
	}
	path := descriptors.PathSegment(key, value)
	if in.path != "" {
		path = in.path + "/" + path
	}
	p.path = path
	p.checkKeys(&m)
	if len(path) > maxPath {
		p.errorf(n, "the path is %d bytes long: at most %d are allowed, shorten its keys and values", len(path), maxPath)
		return
	}
	if !p.spend(n, len(path)) {
		return
	}
	p.checkCharacters(m, "key")
	p.checkCharacters(m, "value")
	p.warnOfValue(m)
	where := p.where(n)
	node, fresh := in.node.Add(key, value, where)
	if !fresh {
		remedy := "write rate_limits: for both"
		if node.Rule == nil || m.get("rate_limit") == nil && m.get("rate_limits") == nil {
			remedy = "put the descriptors of both below it"
		}
		p.errorf(n, "the same key and value are already configured at %s: keep one, and %s", descriptors.Printable(node.Where), remedy)
		node = &descriptors.Node{}
	}
	below := level{domain: in.domain, node: node, path: path, depth: in.depth + 1, values: p.values(m, in),
		patterns: p.patterns(m, in, key, value)}
	rule := p.rule(m, below, where)
	if rule != nil {
		in.domain.SetRule(node, rule)
	}
	if p.descriptors(m, below) == 0 && rule == nil {
		in.domain.AddPass(path, where)
	}
}

// warnOfValue warns if a value is present, but is empty or null and so matches any value.
func (p *parser) warnOfValue(m mapping) {
	switch v := m.get("value"); {
	case v == nil || v.Kind != yaml.ScalarNode:
	case isNull(v) && v.Value != "":
		p.warnf(v, "value: %s is YAML's null, so any value matches: quote it to match the text",
			descriptors.Abbreviate(v.Value))
	case v.Value == "":
		p.warnf(v, "value is empty, so any value matches: leave it out")
	}
}

func (p *parser) where(n *yaml.Node) string {
	name, _, line := p.position(n.Line)
	if p.options.NoLines {
		return name
	}
	return name + ":" + strconv.Itoa(line)
}

// position converts a line of the present file to the position that messages name.
func (p *parser) position(line int) (file, part string, inFile int) {
	if part := p.file.Part; part != nil {
		return part.File, part.Name, part.Line(line)
	}
	return p.file.Name, "", line
}

func (p *parser) errorf(at *yaml.Node, format string, args ...any) {
	if p.errors++; p.errors <= maxProblems {
		p.add(at, fmt.Sprintf(format, args...), false)
	}
}

func (p *parser) warnf(at *yaml.Node, format string, args ...any) {
	if p.warnings++; p.warnings <= maxProblems {
		p.add(at, fmt.Sprintf(format, args...), true)
	}
}

func (p *parser) add(at *yaml.Node, text string, warning bool) {
	file, part, line := p.position(at.Line)
	if p.options.NoLines {
		line = 0
	}
	p.problems = append(p.problems, Problem{File: file, Part: part, Line: line, Domain: p.file.domain, Path: p.path, Text: text,
		Warning: warning})
}
