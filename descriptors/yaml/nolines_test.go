package yaml

import "testing"

func TestPlacesHaveNoLinesIfNobodySeesThem(t *testing.T) {
	text := "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: 1, name: n}\n" +
		"- key: l\n  rate_limit: {unit: day, requests_per_unit: 1, name: n}\n- key: l\n"
	r := NewLastGood(Options{NoLines: true}).Update([]File{{"resource d", []byte(text)}, {"resource e", []byte(limited("e", 1))}}, nil)
	want := []string{
		"resource d: domain d, l: the name n is already that of the limit at resource d",
		"resource d: domain d, l: the same key and value are already configured at resource d: keep one, and write rate_limits: for both",
	}
	if len(r.Problems) != len(want) {
		t.Fatalf("got %v, want %q", r.Problems, want)
	}
	for i, p := range r.Problems {
		if p.Error() != want[i] {
			t.Errorf("got %q, want %q", p, want[i])
		}
	}
	if rules := r.Config.Rules(); len(rules) != 1 || rules[0].Where != "resource e" {
		t.Errorf("the rules are %+v, want one at resource e", rules)
	}
}
