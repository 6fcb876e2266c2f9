package descriptors

import (
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

func TestHashChangesWithEveryDecidingField(t *testing.T) {
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
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.Map:
		field.Set(reflect.ValueOf(map[string]any{"plan": "free"}))
	default:
		t.Fatalf("this test sets no %v: teach it", field.Type())
	}
}
