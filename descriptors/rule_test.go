package descriptors

import (
	"slices"
	"testing"
)

const toldApart = `
domain: shop
descriptors:
  - key: user
    value_to_metric: true
    rate_limit: {requests_per_unit: 10, unit: minute}
    descriptors:
      - key: path
        value: /pay*
        rate_limit: {requests_per_unit: 10, unit: minute}
        descriptors:
          - key: method
            value_to_metric: true
            rate_limit: {requests_per_unit: 10, unit: minute}
      - key: path
        detailed_metric: true
        value_to_metric: true
        rate_limit: {unlimited: true}
  - key: plain
    rate_limit: {requests_per_unit: 10, unit: minute}
  - key: "tenant-*"
    value: gold
    detailed_metric: true
    rate_limit: {requests_per_unit: 10, unit: minute}
`

func TestRulesSayWhichValuesAreToldApart(t *testing.T) {
	c := parse(t, toldApart)
	for _, tc := range []struct {
		name string
		ask  Descriptor
		path string
		want string
	}{
		{"value_to_metric on the rule", Descriptor{{"user", "ann"}}, "user", "user=ann"},
		{"value_to_metric above the rule", Descriptor{{"user", "ann"}, {"path", "/pay/1"}}, "user/path=%2Fpay*", "user=ann"},
		{"value_to_metric on two levels", Descriptor{{"user", "ann"}, {"path", "/pay"}, {"method", "GET"}},
			"user/path=%2Fpay*/method", "user=ann,method=GET"},
		{"detailed_metric goes first", Descriptor{{"user", "ann"}, {"path", "/x"}}, "user/path", "user=ann,path=%2Fx"},
		{"detailed_metric shows configured values too", Descriptor{{"tenant-7", "gold"}}, "tenant-*=gold", "tenant-7=gold"},
		{"neither", Descriptor{{"plain", "x"}}, "plain", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := c.Match("shop", tc.ask).Rule
			if r == nil || r.Path != tc.path {
				t.Fatalf("matched %+v; want the rule %s", r, tc.path)
			}
			if got := string(r.AppendValue(nil, tc.ask)); got != tc.want {
				t.Errorf("the history tells it apart as %q; want %q", got, tc.want)
			}
		})
	}
}

func TestRulesKnowTheirPlace(t *testing.T) {
	for i, r := range parse(t, toldApart).Rules() {
		if r.Number != i {
			t.Errorf("rule %s has number %d and place %d in its domain; counters are found by the number", r.Path, r.Number, i)
		}
	}
}

func TestDifferentValuesNeverShareAText(t *testing.T) {
	r := Rule{Values: []int{0, 1}}
	parts := []string{"", "a", ",", "=", "/", "%", "%2C", "a,b", "a=b", "b=", "\n", "\x7f", "é"}
	seen := make(map[string]Descriptor)
	for _, k1 := range parts {
		for _, v1 := range parts {
			for _, k2 := range parts {
				for _, v2 := range parts {
					d := Descriptor{{k1, v1}, {k2, v2}}
					text := string(r.AppendValue(nil, d))
					if other, taken := seen[text]; taken {
						t.Fatalf("%q and %q both become %q; they would be one series", d, other, text)
					}
					seen[text] = d
				}
			}
		}
	}
}

func TestValuesReadBack(t *testing.T) {
	r := Rule{Values: []int{0, 2}}
	d := Descriptor{{"user", "50%,2"}, {"left", "out"}, {"path", "/a=b"}}
	if got, want := ReadablePath(string(r.AppendValue(nil, d))), "user=50%,2,path=/a=b"; got != want {
		t.Errorf("people are shown %q; want %q", got, want)
	}
}

func TestAValueThatCannotDifferIsWarnedOf(t *testing.T) {
	_, problems := Parse([]File{{"f", []byte("domain: d\ndescriptors:\n" +
		"- {key: k, value: v, value_to_metric: true, rate_limit: {requests_per_unit: 1, unit: day}}\n" +
		"- {key: l, detailed_metric: true}\n- {key: m, detailed_metric: false}")}}, Options{})
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Text)
	}
	want := []string{
		"value_to_metric has no effect beside a value without *: there is only one",
		"detailed_metric has no effect on a descriptor without a rate_limit of its own",
	}
	if !slices.Equal(texts, want) || problems.Err() != nil {
		t.Errorf("got %q; want the warnings %q", texts, want)
	}
}
