package descriptors

import (
	"maps"
	"slices"
)

const (
	// UnmatchedPath stands for the path of a rule where no rule matches. It is stored.
	UnmatchedPath = "__unmatched__"
	// UnknownDomainName stands for the name of a domain that no configuration has. It is stored.
	UnknownDomainName = "__unknown__"
)

// MatchKind says how a [Match] ended.
type MatchKind uint8

const (
	// UnknownDomain means that no file configures the domain.
	UnknownDomain MatchKind = iota
	// NoRule means that the domain is known, but no rule with a limit matches: the descriptor passes uncounted.
	NoRule
	// RuleMatches means that Match.Rule applies.
	RuleMatches
	// BrokenDomain means that files name the domain, but have errors and never were good: its requests get no verdict.
	BrokenDomain
)

// Match is the answer of [Config.Match].
type Match struct {
	Kind MatchKind
	Rule *Rule // set only if a rule was found

	keys         Keys
	ratelimitKey bool // the key is envoyproxy/ratelimit's
}

// ForOverride returns the match where a request brings a limit of its own, with this charge: each value counts by itself.
func (m Match) ForOverride(l *Limit, c Charge) Match {
	return Match{Kind: m.Kind, keys: m.keys, ratelimitKey: m.keys.Format == KeysOfRatelimit && l.fitsRatelimit(c)}
}

// Config is an immutable set of rules, by domain, for any number of goroutines. Make one with [NewConfig]; the zero
// value knows no domain.
type Config struct {
	domains     map[string]*Domain
	rules       []*Rule
	ruleIndexes map[string]int // of each domain, broken ones included: the index of its requests without a rule
	keys        Keys
	broken      []string // sorted
	hash        string
}

// NewConfig returns the configuration of these domains, no two of which may have the same name. From then on they must
// not change; other configurations may have them too. Keys says how it writes the keys of counters. Broken names the
// domains that are configured, but never without an error.
func NewConfig(keys Keys, domains []*Domain, broken []string) *Config {
	c := &Config{domains: make(map[string]*Domain), ruleIndexes: make(map[string]int), keys: keys, broken: slices.Sorted(slices.Values(broken))}
	for _, d := range domains {
		c.domains[d.Name], c.ruleIndexes[d.Name] = d, 1+len(c.ruleIndexes)+len(c.rules)
		d.indexOnce.Do(d.Root.index)
		c.rules = append(c.rules, d.rules...)
	}
	for _, name := range c.broken {
		if _, known := c.ruleIndexes[name]; !known {
			c.ruleIndexes[name] = 1 + len(c.ruleIndexes) + len(c.rules)
		}
	}
	c.hash = hashOf(c.domains, c.broken)
	return c
}

// Hash returns 16 hexadecimal digits that are the same for configurations which decide alike: the same domains, rules
// and broken domains, wherever they come from, in whatever order and on whatever lines they were written. They differ
// where a limit, a message or the order of two patterns does. The zero value has "".
func (c *Config) Hash() string { return c.hash }

// Match finds the rule for a descriptor. Each entry takes one step down the domain's tree: to the child with exactly
// its key and value, else to the first pattern that fits, else to the child with its key and no value. There is no way
// back up: a rule applies only if the descriptor ends on it. Key and value are compared apart. It allocates nothing.
func (c *Config) Match(domain string, d Descriptor) Match {
	configured := c.domains[domain]
	if configured == nil {
		if c.Broken(domain) {
			return Match{Kind: BrokenDomain, keys: c.keys}
		}
		return Match{Kind: UnknownDomain, keys: c.keys}
	}
	n := &configured.Root
	for i := 0; i < len(d) && n != nil; i++ {
		n = n.child(&d[i])
	}
	if n == nil || n.Rule == nil {
		return Match{Kind: NoRule, keys: c.keys}
	}
	return Match{Kind: RuleMatches, Rule: n.Rule, keys: c.keys, ratelimitKey: c.keys.Format == KeysOfRatelimit && n.Rule.FitsRatelimit()}
}

// DomainCount returns the number of domains that have rules or may have them: all but the broken ones.
func (c *Config) DomainCount() int { return len(c.domains) }

// DomainNames lists these domains, sorted.
func (c *Config) DomainNames() []string { return slices.Sorted(maps.Keys(c.domains)) }

// RefundsOnDeny reports whether a domain gives back what a refused request has charged to its other descriptors.
func (c *Config) RefundsOnDeny(domain string) bool {
	d := c.domains[domain]
	return d != nil && d.Refunds
}

// Enforces reports whether a domain has a rule that refuses requests: a limit that is not in shadow mode.
func (c *Config) Enforces(domain string) bool {
	d := c.domains[domain]
	return d != nil && d.enforces
}

// RuleIndex returns the index of a rule's counters: one for each rule, one for each domain (a nil rule) for descriptors that no
// rule matches, and 0 for all unknown domains.
func (c *Config) RuleIndex(domain string, rule *Rule) int {
	at := c.ruleIndexes[domain]
	if rule != nil {
		at += 1 + rule.Number
	}
	return at
}

// Broken reports whether a domain's files have errors and never were good. It has no rules, nor a place in DomainNames.
func (c *Config) Broken(domain string) bool {
	_, broken := slices.BinarySearch(c.broken, domain)
	return broken
}

// BrokenNames lists the domains that are broken, sorted. The result is shared: do not change it.
func (c *Config) BrokenNames() []string { return c.broken }

// DomainContent lists the rules of a domain that DomainNames has, and what passes there without one, in the order of
// files. The results are shared: do not change them.
func (c *Config) DomainContent(domain string) ([]*Rule, []Pass) {
	return c.domains[domain].rules, c.domains[domain].passes
}

// Rules lists all rules, by domain and in the order of files; none of nil. The result is shared: do not change it.
func (c *Config) Rules() []*Rule {
	if c == nil {
		return nil
	}
	return c.rules
}
