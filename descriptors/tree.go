package descriptors

import (
	"crypto/sha256"
	"strings"
	"sync"
)

// Domain is one domain's match tree and rules. A source builds it in one goroutine: a [Node] below Root for each
// descriptor, and SetRule for its rule. Once it is part of a [Config] it must not change.
type Domain struct {
	Name, Where string // Where is file:line
	Root        Node   // the first entries of descriptors stand below it
	Refunds     bool   // a denial refunds what the request has charged to its other descriptors
	enforces    bool   // some rule refuses requests
	rules       []*Rule
	passes      []Pass

	indexOnce sync.Once
	sumOnce   sync.Once
	sum       [sha256.Size]byte // of its content, once it is part of a configuration
}

// SetRule makes r the rule of a node of the domain. Rules are numbered, and listed, in the order of these calls.
func (d *Domain) SetRule(n *Node, r *Rule) {
	r.Domain, r.Number = d.Name, len(d.rules)
	n.Rule = r
	d.enforces = d.enforces || !r.Shadow && !r.Unlimited
	d.rules = append(d.rules, r)
}

// AddPass lists the descriptor of that path among those that let pass what they match.
func (d *Domain) AddPass(path, where string) {
	d.passes = append(d.passes, Pass{Domain: d.Name, Path: path, Where: where})
}

// Pass is a descriptor with neither a limit nor descriptors below it: what it matches passes, uncounted.
type Pass struct{ Domain, Path, Where string }

// Node is a configured descriptor in the match tree of its [Domain]: what may follow the entries matched so far.
type Node struct {
	Rule     *Rule           // applies to descriptors that end here, as [Domain.SetRule] has set it; nil passes them
	Where    string          // file:line
	children map[Entry]*Node // by configured key and value, which is "" if there is none; patterns under their own text
	patterns patterns        // those among the children that hold a '*'
	longest  int             // the length of the longest configured value
}

// Add hangs a child for a configured key and value below n; a value of "" is none. Of patterns the one added first goes
// first. If that key and value are already there, it returns the child that they have, and false.
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

// PatternsTried returns the most of n's patterns that one entry may be compared with: all with text between stars, those of
// one key whose values begin alike up to the first '*', or one of each key with a '*'.
func (n *Node) PatternsTried() int { return n.patterns.tried }

// index prepares n and all below it for step. Nothing is added after it.
func (n *Node) index() {
	n.patterns.index()
	for _, child := range n.children {
		child.index()
	}
}

// child returns the child that an entry leads to, nil if there is none.
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

// isPattern reports whether e, as it is configured, stands for others too.
func (e *Entry) isPattern() bool {
	return strings.Contains(e.Key, "*") || strings.Contains(e.Value, "*")
}
