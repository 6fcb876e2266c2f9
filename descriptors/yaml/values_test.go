package yaml

import (
	"slices"
	"testing"

	"github.com/weirproxy/weir/descriptors"
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
		ask  descriptors.Descriptor
		path string
		want string
	}{
		{"value_to_metric on the rule", spelt("user=ann"), "user", "user=ann"},
		{"value_to_metric above the rule", spelt("user=ann,path=/pay/1"), "user/path=%2Fpay*", "user=ann"},
		{"value_to_metric on two levels", spelt("user=ann,path=/pay,method=GET"),
			"user/path=%2Fpay*/method", "user=ann,method=GET"},
		{"detailed_metric goes first", spelt("user=ann,path=/x"), "user/path", "user=ann,path=%2Fx"},
		{"detailed_metric shows configured values too", spelt("tenant-7=gold"), "tenant-*=gold", "tenant-7=gold"},
		{"neither", spelt("plain=x"), "plain", ""},
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
