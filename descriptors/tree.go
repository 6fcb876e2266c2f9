package descriptors

import (
	"crypto/sha256"
	"strings"
	"sync"
)

// Domain is one domain's match tree and rules. A source builds it in one goroutine: it adds a [Node] below Root for
// each descriptor, and calls SetRule for its rule. After it became part of a [Config] it must not change.
type Domain struct {
	Name, Where string // Where is file:line
	Root        Node   // parent of the first entries of descriptors
	Refunds     bool   // a denied request gets back the hits charged to its other descriptors
	enforces    bool   // a rule can deny requests
	rules       []*Rule
	passes      []Pass

	indexOnce sync.Once
	sumOnce   sync.Once
	sum       [sha256.Size]byte // see contentSum
}

// SetRule sets the rule of a node. Rules are numbered, and listed, in the order of these calls.
func (d *Domain) SetRule(n *Node, r *Rule) {
	r.Domain, r.Number = d.Name, len(d.rules)
	n.Rule = r
	d.enforces = d.enforces || !r.Shadow && !r.Unlimited
	d.rules = append(d.rules, r)
}

// AddPass adds a descriptor that passes all requests that it matches.
func (d *Domain) AddPass(path, where string) {
	d.passes = append(d.passes, Pass{Domain: d.Name, Path: path, Where: where})
}

// Pass is a descriptor with neither a limit nor descriptors below it: requests that match it pass, uncounted.
type Pass struct{ Domain, Path, Where string }

// Node is a configured descriptor in the match tree of its [Domain]. Its children match the next entry of a request's
// descriptor.
type Node struct {
	Rule     *Rule           // the rule of descriptors that end here, set by [Domain.SetRule]; nil passes them
	Where    string          // file:line
	children map[Entry]*Node // by configured key and value, which may be "" or patterns
	patterns patterns        // the children with a '*'
	longest  int             // the length of the longest configured value
}

// Add adds a child of n for a configured key and value, "" for none. Patterns match in the order in which they were
// added. If n has a child with this key and value, Add returns it, and false.
func (n *Node) Add(key, value, where string) (child *Node, added bool) {
	id := Entry{Key: key, Value: value}
	if old := n.children[id]; old != nil {
		return old, false
	}
	child = &Node{Where: where}
	if n.children == nil {
		n.children = make(map[Entry]*Node)
	}
	n.children[id] = child
	n.longest = max(n.longest, len(value))
	if id.isPattern() {
		n.patterns.add(pattern{id, child})
	}
	return child, true
}

// PatternsTried returns the largest number of n's patterns that one entry may be compared with: all with text between
// stars, those of one key whose values have the same text before the first '*', or one for each key with a '*'.
func (n *Node) PatternsTried() int { return n.patterns.tried }

// index prepares n and all nodes below it for child. No child may be added after it.
func (n *Node) index() {
	n.patterns.index()
	for _, child := range n.children {
		child.index()
	}
}

// child returns the child that matches an entry, nil if there is none.
func (n *Node) child(e *Entry) *Node {
	if len(e.Value) <= n.longest { // a map would read all of a long value
		if next := n.children[*e]; next != nil && (e.Value != "" || e.isPattern()) { // else a key alone, which comes last
			return next
		}
	}
	if next := n.patterns.first(e); next != nil {
		return next
	}
	return n.children[Entry{Key: e.Key}]
}

// isPattern reports whether a configured key or value has a '*'.
func (e *Entry) isPattern() bool {
	return strings.Contains(e.Key, "*") || strings.Contains(e.Value, "*")
}
