package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

func TestParseDescriptor(t *testing.T) {
	for _, c := range []struct {
		promise string
		text    string
		want    descriptors.Descriptor
		err     string
	}{
		{"one entry", `user=ann`, descriptors.Descriptor{{Key: "user", Value: "ann"}}, ""},
		{"order is kept", `b=2,a=1`, descriptors.Descriptor{{Key: "b", Value: "2"}, {Key: "a", Value: "1"}}, ""},
		{"the first = separates", `q=a=b=c`, descriptors.Descriptor{{Key: "q", Value: "a=b=c"}}, ""},
		{"a value may be empty", `user=`, descriptors.Descriptor{{Key: "user"}}, ""},
		{"an escaped comma is one", `u=a\,b,x=`, descriptors.Descriptor{{Key: "u", Value: "a,b"}, {Key: "x"}}, ""},
		{"an escaped comma in a key is one", `a\,b=c`, descriptors.Descriptor{{Key: "a,b", Value: "c"}}, ""},
		{"two backslashes are one", `p=a\\b`, descriptors.Descriptor{{Key: "p", Value: `a\b`}}, ""},
		{"a comma after two backslashes separates", `p=a\\,q=b`,
			descriptors.Descriptor{{Key: "p", Value: `a\`}, {Key: "q", Value: "b"}}, ""},
		{"any other backslash stands for itself", `p=\d+\`, descriptors.Descriptor{{Key: "p", Value: `\d+\`}}, ""},
		{"spaces belong to the value", `ua=a b `, descriptors.Descriptor{{Key: "ua", Value: "a b "}}, ""},
		{"nothing is no descriptor", ``, nil, "empty"},
		{"an entry without = is shown", `user=ann,path`, nil, `"path" in "user=ann,path" has no "="`},
		{"a trailing comma is an entry without =", `user=ann,`, nil, `"" in "user=ann,"`},
		{"a key is needed", `=ann`, nil, `"=ann" in "=ann" has no key`},
	} {
		t.Run(c.promise, func(t *testing.T) {
			got, err := parseDescriptor(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("parseDescriptor(%q) gave error %v, want one with %q, so that the user sees what is wrong",
						c.text, err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("parseDescriptor(%q) = %q, %v, want %q", c.text, got, err, c.want)
			}
		})
	}
}

// FuzzParseDescriptorReadsWhatIsShown holds that a descriptor copied from weir's output can be asked about.
func FuzzParseDescriptorReadsWhatIsShown(f *testing.F) {
	f.Add("user", "ann", "path", "/pay")
	f.Add("a,b", `\`, `\,`, `\\,=`)
	f.Add(`k\`, "", "x", ",")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		if k1 == "" || k2 == "" || strings.Contains(k1+k2, "=") {
			return // no text stands for these
		}
		want := descriptors.Descriptor{{Key: k1, Value: v1}, {Key: k2, Value: v2}}
		got, err := parseDescriptor(want.String())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is shown as %q, which reads as %q, %v", want, want.String(), got, err)
		}
	})
}

// FuzzParseDescriptorIsShownAsRead holds that all that is read can be shown again.
func FuzzParseDescriptorIsShownAsRead(f *testing.F) {
	f.Add(`user=ann,path=\,\\\x`)
	f.Add(`a=b\`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDescriptor(text)
		if err != nil {
			return
		}
		again, err := parseDescriptor(d.String())
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Errorf("%q reads as %q, which is shown as %q and reads as %q, %v", text, d, d.String(), again, err)
		}
	})
}

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
		t.Run(c.text, func(t *testing.T) {
			got, err := parseLimit(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("parseLimit(%q) gave error %v, want one with %q, so that the user sees what is wrong",
						c.text, err, c.err)
				}
				return
			}
			if err != nil || got.Requests != c.requests || got.Multiplier != c.multiplier || got.Unit != c.unit {
				t.Fatalf("parseLimit(%q) = %+v, %v, want %d per %d %v", c.text, got, err, c.requests, c.multiplier, c.unit)
			}
			if !strings.EqualFold(got.String(), c.text) {
				t.Errorf("parseLimit(%q) is shown as %q: it must read back", c.text, got)
			}
		})
	}
}
