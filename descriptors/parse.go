package descriptors

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// File is a configuration file: its name, for messages, and what it holds.
type File struct {
	Name string
	Data []byte
}

// Options are what a configuration does not say itself. The zero value is weir's own default.
type Options struct {
	// Algorithm of limits that name none; 0 is SlidingWindow.
	Algorithm Algorithm
	// KeyPrefix tells the keys of this configuration from those of others in the same store; "" is a prefix too.
	KeyPrefix string
	// Merge lets several files configure one domain: their descriptors stand as if in one file, in the order of the
	// files' names. Otherwise a domain in two files is an error.
	Merge bool
}

const (
	// maxDepth is how deep descriptors may nest. It also ends YAML aliases that contain themselves.
	maxDepth = 100
	// maxUnfolded bounds what files hold once their YAML aliases are followed, roughly in bytes.
	maxUnfolded = 64 << 20
	nodeCost    = 32
	// maxProblems is how many errors, and how many warnings, are told at most.
	maxProblems = 1000
	// maxLimits is how many limits one rule may have: each is checked on every request.
	maxLimits = 16
)

// Parse reads a configuration, all of its files or none: the Config is nil if any problem is not a warning. Every
// problem of every file is reported, up to 1,000 errors and 1,000 warnings. Files are taken in the order of the
// bytes of their names.
func Parse(files []File, o Options) (*Config, Problems) {
	p := NewHeld(o).read(files)
	if p.errors > 0 {
		return nil, p.problems
	}
	return newConfig(o, p.domains, p.read), p.problems
}

// newConfig makes a configuration of domains and of their files, which come in the order of their names.
func newConfig(o Options, domains map[string]*node, files []readFile) *Config {
	c := &Config{domains: domains, prefix: o.KeyPrefix}
	for _, f := range files {
		c.rules, c.passes = append(c.rules, f.rules...), append(c.passes, f.passes...)
	}
	return c
}

// readFile is a file that was read, and what it gave. It is not changed once all files are read.
type readFile struct {
	File
	domain       string // "" if that is not known
	bad          bool   // it has errors
	unfolded     int    // its part of what was read, in the measure of maxUnfolded
	rules        []*Rule
	passes       []Pass
	replacements []replacement
	problems     Problems // that were found while it was read
	untold       bool     // there were more
}

// parser holds what has been read so far, and where it stands.
type parser struct {
	algorithm Algorithm
	shared    bool // several files may configure one domain
	domains   map[string]*node
	numbers   map[string]int // how many rules each domain has
	unfolded  int            // what has been read, aliases followed, in the measure of maxUnfolded

	read       []readFile
	composites map[composite]string // where each stands
	names      map[Entry]string     // where each name of a limit stands, by domain and name

	problems         Problems
	errors, warnings int // all of them, told or not

	file, domain string // being read, with what it gave so far
	rules        []*Rule
	passes       []Pass
	replacements []replacement
}

func newParser(o Options) *parser {
	return &parser{algorithm: cmp.Or(o.Algorithm, SlidingWindow), shared: o.Merge,
		domains: make(map[string]*node), numbers: make(map[string]int),
		composites: make(map[composite]string), names: make(map[Entry]string)}
}

func (p *parser) readFile(f File) {
	p.file, p.domain = f.Name, ""
	p.rules, p.passes, p.replacements = nil, nil, nil
	errors, warnings, problems, unfolded := p.errors, p.warnings, len(p.problems), p.unfolded
	p.readData(f.Data)
	if p.unfolded > maxUnfolded {
		p.unfolded = unfolded // the next file need not pay for this one
	}
	told := slices.Clone(p.problems[problems:])
	p.read = append(p.read, readFile{File: f, domain: p.domain, bad: p.errors > errors, unfolded: p.unfolded - unfolded,
		rules: p.rules, passes: p.passes, replacements: p.replacements,
		problems: told, untold: p.errors-errors+p.warnings-warnings > len(told)})
}

// take takes a file that has no errors as it was read before, and tells its warnings again.
func (p *parser) take(f readFile) {
	p.unfolded += f.unfolded
	told := min(len(f.problems), max(0, maxProblems-p.warnings))
	p.warnings += len(f.problems)
	p.problems = append(p.problems, f.problems[:told]...)
	p.read = append(p.read, f)
}

// end is called once all files are read.
func (p *parser) end() {
	p.warnOfNothingReplaced()
	p.problems.sort()
	if more := max(0, p.errors-maxProblems) + max(0, p.warnings-maxProblems); more > 0 {
		p.problems = append(p.problems, Problem{Text: fmt.Sprintf("and %d more problems", more), Warning: true})
	}
}

func (p *parser) readData(data []byte) {
	root, ok := p.document(data)
	if !ok {
		return
	}
	m, ok := p.unchecked(root, inFile, "")
	if !ok {
		return
	}
	p.domain = p.needed(m, "domain", "", "no domain: begin the file with domain: and its name")
	p.checkKeys(&m, "")
	top := &node{where: p.where(m.node)}
	switch other := p.domains[p.domain]; {
	case other != nil && p.shared:
		top = other
	case other != nil:
		p.errorf(m.at("domain"), "", "this domain is already configured at %s: keep a domain in one file, or set "+
			"MERGE_DOMAIN_CONFIG=true", printable(other.where))
	case p.domain != "":
		p.domains[p.domain] = top
	}
	p.descriptors(m, top, "", 1)
}

// descriptors reads the list of that name below parent, whose path is given. It may be empty.
func (p *parser) descriptors(m mapping, parent *node, path string, depth int) {
	list := m.get("descriptors")
	if list == nil || isNull(list) {
		return
	}
	if depth > maxDepth {
		p.errorf(m.at("descriptors"), path, "descriptors nest deeper than %d levels", maxDepth)
		return
	}
	for _, item := range p.list(list, "descriptors", path) {
		p.descriptor(item, parent, path, depth)
	}
}

func (p *parser) descriptor(n *yaml.Node, parent *node, path string, depth int) {
	m, ok := p.unchecked(n, inDescriptor, path)
	if !ok {
		return
	}
	key := p.needed(m, "key", path, "a descriptor needs a key: it is missing or empty")
	value := p.text(m, "value", path, maxName)
	if key == "" {
		parent, key = &node{}, "?" // what else is wrong is still told
	}
	path = joinPath(path, PathSegment(key, value))
	p.checkKeys(&m, path)
	if !p.spend(n, len(path)) {
		return
	}
	p.warnOfValue(m, path)
	child := p.add(n, parent, key, value, path)
	child.values = p.values(m, parent.values, path, depth-1)
	child.shared = p.sharing(m, parent.shared, key, value, path, depth-1)
	if child.rule = p.rule(m, path, p.where(n)); child.rule != nil {
		child.rule.Number = p.numbers[p.domain]
		p.numbers[p.domain]++
		child.rule.Values, child.rule.shared = child.values, child.shared
		if child.rule.detailed {
			child.rule.Values = upTo(depth)
		}
		p.rules = append(p.rules, child.rule)
	}
	p.descriptors(m, child, path, depth+1)
	if child.rule == nil && child.exact == nil && child.byKey == nil {
		p.passes = append(p.passes, Pass{Domain: p.domain, Path: path, Where: p.where(n)})
	}
}

func (p *parser) where(n *yaml.Node) string { return fmt.Sprintf("%s:%d", p.file, n.Line) }

func joinPath(parent, segment string) string {
	if parent == "" {
		return segment
	}
	return parent + "/" + segment
}

func (p *parser) errorf(at *yaml.Node, path, format string, args ...any) {
	if p.errors++; p.errors <= maxProblems {
		p.problems = append(p.problems, p.problem(at, path, fmt.Sprintf(format, args...)))
	}
}

func (p *parser) warnf(at *yaml.Node, path, format string, args ...any) {
	if p.warnings++; p.warnings <= maxProblems {
		w := p.problem(at, path, fmt.Sprintf(format, args...))
		w.Warning = true
		p.problems = append(p.problems, w)
	}
}

func (p *parser) problem(at *yaml.Node, path, text string) Problem {
	return Problem{File: printable(p.file), Line: at.Line, Domain: shown(p.domain), Path: shownPath(path), Text: text}
}
