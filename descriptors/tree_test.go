package descriptors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestADomainNumbersAndListsItsRules(t *testing.T) {
	bank, shop := &Domain{Name: "bank", Where: "b:1"}, &Domain{Name: "shop", Where: "a:1"}
	for i, d := range []*Domain{shop, bank, shop} {
		n, _ := d.Root.Add("user", fmt.Sprint(i), "")
		d.SetRule(n, &Rule{Path: fmt.Sprint("user=", i)})
	}
	shop.AddPass("path", "a:9")
	c := NewConfig(Keys{}, []*Domain{shop, bank}, []string{"z", "y"})
	got := ""
	for _, r := range c.Rules() {
		got += fmt.Sprintf("%s %d %s, ", r.Domain, r.Number, r.Path)
	}
	if want := "shop 0 user=0, shop 1 user=2, bank 0 user=1, "; got != want {
		t.Errorf("the rules are %s want %s: counters are found by domain and number", got, want)
	}
	if want := []Pass{{"shop", "path", "a:9"}}; !slices.Equal(c.Passes(), want) {
		t.Errorf("what passes is %v, want %v", c.Passes(), want)
	}
	if !c.Broken("y") || !c.Broken("z") || c.Broken("shop") || c.Domains() != 2 {
		t.Errorf("the domains %v are broken, want y and z, whatever order they were given in", c.BrokenNames())
	}
}

func TestANodeHasEachKeyAndValueOnce(t *testing.T) {
	var root Node
	entries := []Entry{{"b*", ""}, {"user", "ann"}, {"user", ""}, {"a", "*"}, {"*", "x"}}
	for _, e := range entries {
		first, added := root.Add(e.Key, e.Value, e.String())
		again, twice := root.Add(e.Key, e.Value, "again")
		if !added || twice || again != first || first.Where != e.String() {
			t.Errorf("%v was added: %v, and again: %v, at %s; want one child, where it was first", e, added, twice, again.Where)
		}
	}
	var got []Entry
	for e, child := range root.Children() {
		if got = append(got, e); child.Where != e.String() {
			t.Errorf("%v leads to the child of %s", e, child.Where)
		}
	}
	if want := []Entry{{"b*", ""}, {"a", "*"}, {"*", "x"}}; len(got) != len(entries) || !slices.Equal(got[:3], want) {
		t.Errorf("the children are %v, want all five, and first the patterns as they were added: %v", got, want)
	}
}

func TestGlobTakesNoTimeOnHostileText(t *testing.T) {
	// A backtracking matcher needs longer than the universe has for this.
	if glob(strings.Repeat("a*", 50)+"b", strings.Repeat("a", 100_000)) {
		t.Error("there is no b")
	}
}
