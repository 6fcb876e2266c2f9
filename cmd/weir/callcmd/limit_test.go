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
		{text: "10", err: `"10" is not a limit: write 10/minute or 10/5minute`},
		{text: "-1/minute", err: "is not a limit"},
		{text: "4294967296/minute", err: "out of range"},
		{text: "10/minutes", err: `"minutes" is not a unit: use one of second, minute`},
		{text: "10/0minute", err: "unit_multiplier must be at least 1"},
		{text: "10/4294967296minute", err: "out of range"},
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
