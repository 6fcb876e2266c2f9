package callcmd

import (
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

func TestParseLimit(t *testing.T) {
	for _, c := range []struct {
		text       string
		requests   uint64
		multiplier uint32
		unit       descriptors.Unit
		err        string
	}{
		{text: "10/minute", requests: 10, multiplier: 1, unit: descriptors.Minute},
		{text: "10/5minute", requests: 10, multiplier: 5, unit: descriptors.Minute},
		{text: "0/second", requests: 0, multiplier: 1, unit: descriptors.Second},
		{text: "4294967295/WEEK", requests: 4294967295, multiplier: 1, unit: descriptors.Week},
		{text: "", err: `has no "/"`},
		{text: "10", err: `has no "/"`},
		{text: "ten/minute", err: `"ten" in "ten/minute" is not a whole number`},
		{text: "-1/minute", err: "not a whole number"},
		{text: "4294967296/minute", err: "not a whole number from 0 to 4294967295"},
		{text: "10/", err: "is not a unit: use one of second, minute"},
		{text: "10/minutes", err: `"minutes" is not a unit`},
		{text: "10/5", err: "is not a unit"},
		{text: "10/0minute", err: "is not a multiplier"},
		{text: "10/4294967296minute", err: "is not a multiplier"},
		{text: "10/293year", err: "longer than 292 years"},
	} {
		got, err := parseLimit(c.text)
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("parseLimit(%q) gave error %v, want one with %q, so that the user sees what is wrong", c.text, err, c.err)
			}
		case err != nil || got.Requests != c.requests || got.Multiplier != c.multiplier || got.Unit != c.unit || !strings.EqualFold(got.String(), c.text):
			t.Errorf("parseLimit(%q) = %+v, %v, want %d per %d %v, which is shown as it is written", c.text, got, err, c.requests, c.multiplier, c.unit)
		}
	}
}
