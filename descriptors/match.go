package descriptors

import (
	"maps"
	"slices"
	"strings"
)

// Found says what a configuration knows about a descriptor.
type Found uint8

const (
	// UnknownDomain means that no file configures the domain.
	UnknownDomain Found = iota
	// NoRule means that the domain is known, but no rule with a limit matches: the descriptor passes uncounted.
	NoRule
	// RuleFound means that Match.Rule applies.
	RuleFound
	// BrokenDomain means that files name the domain, but that they have errors and never were good: nobody knows what to
	// answer.
	BrokenDomain
)

// Match is the answer of [Config.Match].
type Match struct {
	Found Found
	Rule  *Rule // set only if a rule was found

	prefix string // of keys
}

// Apart is the match for a limit that the request brings with it: its key has every value, also where the rule lets the
// values of a pattern share one count.
func (m Match) Apart() Match { return Match{Found: m.Found, prefix: m.prefix} }

// Config is an immutable set of rules, by domain. Its methods may be called by any number of goroutines; the zero
// value knows no domain. Make one with [Parse].
type Config struct {
	domains map[string]*node
	rules   []*Rule
	passes  []Pass
	prefix  string   // of keys
	broken  []string // sorted
}

// Pass is a descriptor with neither a limit nor descriptors below it: what it matches passes, uncounted.
type Pass struct{ Domain, Path, Where string }

// node is one level of the match tree: what may follow the entries matched so far.
type node struct {
	rule     *Rule            // applies if the descriptor ends here; nil passes it
	where    string           // file:line, for Explain
	values   []int            // the entries down to here whose values the history keeps apart
	shared   []string         // see Rule.shared
	exact    map[Entry]*node  // configured key and value, patterns included under their own text
	patterns patterns         // those among exact that hold a '*'
	byKey    map[string]*node // configured key without a value
}

// Match finds the rule for a descriptor. Each entry takes one step down the domain's tree: to the child with exactly
// its key and value, else to the first pattern that fits, else to the child with its key and no value. There is no way
// back up: a rule applies only if the descriptor ends on it. Key and value are compared apart. It allocates nothing.
func (c *Config) Match(domain string, d Descriptor) Match {
	n := c.domains[domain]
	if n == nil {
		if c.Broken(domain) {
			return Match{Found: BrokenDomain, prefix: c.prefix}
		}
		return Match{Found: UnknownDomain, prefix: c.prefix}
	}
	for i := range d {
		if n = n.step(&d[i]); n == nil {
			return Match{Found: NoRule, prefix: c.prefix}
		}
	}
	if n.rule == nil {
		return Match{Found: NoRule, prefix: c.prefix}
	}
	return Match{Found: RuleFound, Rule: n.rule, prefix: c.prefix}
}

// step is the child that an entry leads to, nil if there is none.
func (n *node) step(e *Entry) *node {
	if next := n.exact[*e]; next != nil {
		return next
	}
	if next := n.patterns.first(e); next != nil {
		return next
	}
	return n.byKey[e.Key]
}

// add hangs a child for a configured key and value below n. If that key and value are already there, it returns the
// child that they have, and false.
func (n *node) add(key, value, where string) (child *node, added bool) {
	id := Entry{Key: key, Value: value}
	if old := n.exact[id]; old != nil {
		return old, false
	}
	if old := n.byKey[key]; old != nil && value == "" {
		return old, false
	}
	child = &node{where: where}
	isPattern := strings.Contains(key, "*") || strings.Contains(value, "*")
	switch {
	case isPattern:
		n.patterns.add(pattern{key, value, child})
	case value == "":
		if n.byKey == nil {
			n.byKey = make(map[string]*node)
		}
		n.byKey[key] = child
		return child, true
	}
	if n.exact == nil {
		n.exact = make(map[Entry]*node)
	}
	n.exact[id] = child
	return child, true
}

// Domains is the number of domains in the configuration.
func (c *Config) Domains() int { return len(c.domains) }

// DomainNames lists the domains, sorted.
func (c *Config) DomainNames() []string { return slices.Sorted(maps.Keys(c.domains)) }

// Broken says whether a domain is named by files that have errors and never were good. Such a domain is not among those
// of DomainNames, and has no rules.
func (c *Config) Broken(domain string) bool {
	_, broken := slices.BinarySearch(c.broken, domain)
	return broken
}

// BrokenNames lists the domains that are broken, sorted. The result is shared: do not change it.
func (c *Config) BrokenNames() []string { return c.broken }

// Passes lists what passes without a rule, in the order of the files. The result is shared: do not change it.
func (c *Config) Passes() []Pass { return c.passes }

// Rules lists all rules, in the order of their files. The result is shared: do not change it.
func (c *Config) Rules() []*Rule { return c.rules }
