package descriptors_test

import (
	"fmt"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// many returns a configuration of n rules for the users u0, u1 and so on.
func many(n int) *descriptors.Config {
	shop := &descriptors.Domain{Name: "shop", Where: "shop.yaml:1"}
	for i := range n {
		value, where := fmt.Sprint("u", i), fmt.Sprint("shop.yaml:", 3+i)
		node, _ := shop.Root.Add("user", value, where)
		shop.SetRule(node, &descriptors.Rule{Path: descriptors.PathSegment("user", value), Where: where, Unlimited: true})
	}
	return descriptors.NewConfig(descriptors.Keys{}, []*descriptors.Domain{shop}, nil)
}

func TestMatchAllocatesNothing(t *testing.T) {
	c := many(100)
	for _, d := range []descriptors.Descriptor{{{"user", "u7"}}, {{"user", "nobody"}}, {{"user", "u7"}, {"path", "/"}}, nil} {
		if n := testing.AllocsPerRun(1000, func() { c.Match("shop", d) }); n != 0 {
			t.Errorf("%v: %v allocations, want 0: every request is matched", d, n)
		}
	}
}
