package descriptors

import (
	"maps"
	"slices"
)

const (
	// UnmatchedPath replaces the path of a rule for requests that no rule matches. It is stored.
	UnmatchedPath = "__unmatched__"
	// UnknownDomainName replaces the names of domains that are not configured. It is stored.
	UnknownDomainName = "__unknown__"
)

// MatchKind is the kind of a [Match].
type MatchKind uint8

const (
	// UnknownDomain means that no file configures the domain.
	UnknownDomain MatchKind = iota
	// NoRule means that the domain is known, but no rule with a limit matches: the descriptor passes uncounted.
	NoRule
	// RuleMatches means that Match.Rule applies.
	RuleMatches
	// BrokenDomain means that the files of the domain have errors and never were valid: its requests get no verdict.
	BrokenDomain
)

// Match is the result of [Config.Match].
type Match struct {
	Kind MatchKind
	Rule *Rule // nil unless Kind is RuleMatches

	keys         Keys
	ratelimitKey bool // the key is envoyproxy/ratelimit's
}

// ForOverride returns the match of a request that overrides the rule by its own limit, with a charge. Each value has
// its own count.
func (m Match) ForOverride(l *Limit, c Charge) Match {
	return Match{Kind: m.Kind, keys: m.keys, ratelimitKey: m.keys.Format == KeysOfRatelimit && l.fitsRatelimit(c)}
}

// Config is an immutable set of domains and their rules, for any number of goroutines. Make one with [NewConfig]; the
// zero value has no domain.
type Config struct {
	domains     map[string]*Domain
	rules       []*Rule
	ruleIndexes map[string]int // by domain, also a broken one, the index of its requests without a rule
	keys        Keys
	broken      []string // sorted
	hash        string
}

// NewConfig returns the configuration of some domains with different names. They must not change any more; other
// configurations may share them. broken has the names of the broken domains; see [BrokenDomain].
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

// Hash returns 16 hexadecimal digits that depend on the domains, rules and broken domains, but not on their source,
// order and lines. They differ if a limit, a message or the order of two patterns differs. For the zero value it
// returns "".
func (c *Config) Hash() string { return c.hash }

// Match finds the rule for a descriptor. Each entry is one step down the domain's tree: to the child with exactly its
// key and value, else to the first pattern that matches, else to the child with its key and no value. A rule applies
// only if the descriptor ends on it; Match does not go back up. It allocates nothing.
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

// DomainCount returns the number of domains, without the broken ones.
func (c *Config) DomainCount() int { return len(c.domains) }

// DomainNames returns the sorted names of the domains, without the broken ones.
func (c *Config) DomainNames() []string { return slices.Sorted(maps.Keys(c.domains)) }

// RefundsOnDeny reports whether a denied request of a domain gets back the hits charged to its other descriptors.
func (c *Config) RefundsOnDeny(domain string) bool {
	d := c.domains[domain]
	return d != nil && d.Refunds
}

// Enforces reports whether a domain has a rule that can deny requests: one with a limit that is not in shadow mode.
func (c *Config) Enforces(domain string) bool {
	d := c.domains[domain]
	return d != nil && d.enforces
}

// RuleIndex returns the index of a rule's counters: a different one for each rule, and for a nil rule one for each
// domain; 0 for all unknown domains.
func (c *Config) RuleIndex(domain string, rule *Rule) int {
	at := c.ruleIndexes[domain]
	if rule != nil {
		at += 1 + rule.Number
	}
	return at
}

// Broken reports whether a domain is broken; see [BrokenDomain].
func (c *Config) Broken(domain string) bool {
	_, broken := slices.BinarySearch(c.broken, domain)
	return broken
}

// BrokenNames returns the sorted names of the broken domains. The result is shared and must not be changed.
func (c *Config) BrokenNames() []string { return c.broken }

// DomainContent returns the rules and passes of a domain of DomainNames, in the order of files. The results are shared
// and must not be changed.
func (c *Config) DomainContent(domain string) ([]*Rule, []Pass) {
	return c.domains[domain].rules, c.domains[domain].passes
}

// Rules returns all rules, by domain and in the order of files. The config may be nil. The result is shared and must
// not be changed.
func (c *Config) Rules() []*Rule {
	if c == nil {
		return nil
	}
	return c.rules
}
