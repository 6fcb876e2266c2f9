package yaml

import (
	"cmp"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// checkExplanation fails unless Explain tells of the match that Match makes, level by level. The domain's tree is nil
// if nothing configures the domain.
func checkExplanation(t *testing.T, c *descriptors.Config, domain string, tree *descriptors.Domain, d descriptors.Descriptor) {
	t.Helper()
	x, m := c.Explain(domain, d), c.Match(domain, d)
	if x.Match != m || x.String() == "" || x.Reason == "" {
		t.Fatalf("%v: Explain tells of another match than Match makes, %+v:\n%v", d, m, x)
	}
	if tree == nil {
		if len(x.Steps) > 0 || x.DomainWhere != "" {
			t.Fatalf("%v: Explain goes into a domain that nothing configures:\n%v", d, x)
		}
		return
	}
	n := &tree.Root
	for i, s := range x.Steps {
		listed, children := len(s.Others)+s.More, 0
		if s.Chosen != nil {
			listed++
		}
		for range n.Children() {
			children++
		}
		if s.Entry != d[i] || len(s.Others) > 10 || listed != children {
			t.Fatalf("%v: step %d does not account for its %d children:\n%v", d, i, children, x)
		}
		for _, o := range s.Others {
			if fits := fitsByDefinition(o.Entry, d[i]); fits != o.Fits {
				t.Fatalf("%v: step %d says %v of whether %v fits:\n%v", d, i, o.Fits, o, x)
			}
			if o.Fits && s.Chosen == nil {
				t.Fatalf("%v: step %d takes none, though %v fits:\n%v", d, i, o, x)
			}
		}
		next := stepByDefinition(n, d[i])
		if next == nil != (s.Chosen == nil) || next != nil && next.Where != s.Chosen.Where {
			t.Fatalf("%v: step %d takes another child than Match:\n%v", d, i, x)
		}
		if next == nil {
			return
		}
		n = next
	}
	if len(x.Steps) != len(d) || n.Rule != m.Rule {
		t.Fatalf("%v: Explain ends elsewhere than Match, %+v:\n%v", d, m, x)
	}
}

// stepByDefinition is the child that an entry leads to, found by looking at all: the exact one, else the first pattern
// that fits, else the key alone.
func stepByDefinition(n *descriptors.Node, e descriptors.Entry) *descriptors.Node {
	var first, alone *descriptors.Node
	for own, child := range n.Children() {
		switch {
		case own == e && (own.Value != "" || isStarred(own)):
			return child
		case isStarred(own) && fitsByDefinition(own, e):
			first = cmp.Or(first, child)
		case own.Value == "" && own.Key == e.Key:
			alone = child
		}
	}
	return cmp.Or(first, alone)
}
