package descriptors

import (
	"fmt"
	"reflect"
	"testing"
)

// oneRule is a configuration of one rule with one limit.
func oneRule(r Rule) *Config {
	d := &Domain{Name: "shop", Where: "f:1"}
	n, _ := d.Root.Add("user", "", "f:3")
	d.SetRule(n, &r)
	return NewConfig(Keys{}, []*Domain{d}, nil)
}

func TestWhateverDecidesARequestChangesTheHash(t *testing.T) {
	limit, err := NewLimit(10, Minute, 1, SlidingWindow, 0)
	if err != nil {
		t.Fatal(err)
	}
	base := oneRule(Rule{Limits: []Limit{limit}}).Hash()
	if len(base) != 16 {
		t.Errorf("the hash is %q, want 16 digits", base)
	}
	place := map[string]bool{"Domain": true, "Path": true, "Where": true, "Number": true} // follow from the tree, or decide nothing
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Rule]()) {
		r := Rule{Limits: []Limit{limit}}
		set(t, reflect.ValueOf(&r).Elem().FieldByIndex(f.Index))
		if changed := oneRule(r).Hash() != base; changed == place[f.Name] {
			t.Errorf("Rule.%s changes the hash: %t, want %t: replicas that differ in it would look alike, or the reverse",
				f.Name, changed, !place[f.Name])
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Limit]()) {
		other := limit
		set(t, reflect.ValueOf(&other).Elem().FieldByIndex(f.Index))
		if oneRule(Rule{Limits: []Limit{other}}).Hash() == base {
			t.Errorf("Limit.%s does not change the hash: replicas that differ in it would look alike", f.Name)
		}
	}
}

// set gives a field another value than it has.
func set(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Kind() {
	case reflect.String:
		field.SetString(field.String() + "x")
	case reflect.Bool:
		field.SetBool(!field.Bool())
	case reflect.Int, reflect.Int64:
		field.SetInt(field.Int() + 1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		field.SetUint(field.Uint() + 1)
	case reflect.Slice:
		field.Set(reflect.Append(field, reflect.Zero(field.Type().Elem())))
	case reflect.Map:
		field.Set(reflect.ValueOf(map[string]any{"plan": "free"}))
	default:
		t.Fatalf("this test sets no %v: teach it", field.Type())
	}
}

// treeOf is a domain whose first level has these entries, each with a rule that has its message, or without one for "".
func treeOf(name string, entries ...[3]string) *Domain {
	d := &Domain{Name: name}
	for i, e := range entries {
		n, _ := d.Root.Add(e[0], e[1], fmt.Sprint(i))
		if e[2] != "" {
			d.SetRule(n, &Rule{Message: e[2]})
		}
	}
	return d
}

func TestTheHashIsOfTheContentAndNotOfItsOrder(t *testing.T) {
	hash := func(broken []string, domains ...*Domain) string { return NewConfig(Keys{}, domains, broken).Hash() }
	type entry = [3]string
	a, b := entry{"user", "ann", "1"}, entry{"user", "", "2"}
	star, tail := entry{"path", "/a*", "3"}, entry{"path", "*b", "4"}
	same := hash([]string{"y", "z"}, treeOf("shop", a, b, star, tail), treeOf("bank", a))
	for why, got := range map[string]string{
		"domains in another order":        hash([]string{"y", "z"}, treeOf("bank", a), treeOf("shop", a, b, star, tail)),
		"descriptors in another order":    hash([]string{"y", "z"}, treeOf("shop", b, star, tail, a), treeOf("bank", a)),
		"broken domains in another order": hash([]string{"z", "y"}, treeOf("shop", a, b, star, tail), treeOf("bank", a)),
	} {
		if got != same {
			t.Errorf("%s change the hash, so that replicas with the same rules would look different", why)
		}
	}
	refunds := treeOf("shop", a, b, star, tail)
	refunds.Refunds = true
	for why, got := range map[string]string{
		"patterns in another order":      hash([]string{"y", "z"}, treeOf("shop", a, b, tail, star), treeOf("bank", a)),
		"a descriptor without a rule":    hash([]string{"y", "z"}, treeOf("shop", entry{"user", "ann", ""}, b, star, tail), treeOf("bank", a)),
		"one that lets pass more":        hash([]string{"y", "z"}, treeOf("shop", a, b, star, tail, entry{"x", "", ""}), treeOf("bank", a)),
		"the name of a domain":           hash([]string{"y", "z"}, treeOf("shop", a, b, star, tail), treeOf("banks", a)),
		"the same texts, cut otherwise":  hash([]string{"yz"}, treeOf("shop", a, b, star, tail), treeOf("bank", a)),
		"refund_on_deny":                 hash([]string{"y", "z"}, refunds, treeOf("bank", a)),
		"an entry's text moved to value": hash([]string{"y", "z"}, treeOf("shop", entry{"usera", "nn", "1"}, b, star, tail), treeOf("bank", a)),
	} {
		if got == same {
			t.Errorf("%s does not change the hash, so that replicas that decide otherwise would look alike", why)
		}
	}
}
