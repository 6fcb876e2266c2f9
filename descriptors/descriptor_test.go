package descriptors

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseDescriptor(t *testing.T) {
	for _, c := range []struct {
		promise string
		text    string
		want    Descriptor
		err     string
	}{
		{"one entry", `user=ann`, Descriptor{{Key: "user", Value: "ann"}}, ""},
		{"order is kept", `b=2,a=1`, Descriptor{{Key: "b", Value: "2"}, {Key: "a", Value: "1"}}, ""},
		{"the first = separates", `q=a=b=c`, Descriptor{{Key: "q", Value: "a=b=c"}}, ""},
		{"a value may be empty", `user=`, Descriptor{{Key: "user"}}, ""},
		{"an escaped comma is one", `u=a\,b,x=`, Descriptor{{Key: "u", Value: "a,b"}, {Key: "x"}}, ""},
		{"an escaped comma in a key is one", `a\,b=c`, Descriptor{{Key: "a,b", Value: "c"}}, ""},
		{"two backslashes are one", `p=a\\b`, Descriptor{{Key: "p", Value: `a\b`}}, ""},
		{"a comma after two backslashes separates", `p=a\\,q=b`,
			Descriptor{{Key: "p", Value: `a\`}, {Key: "q", Value: "b"}}, ""},
		{"any other backslash stands for itself", `p=\d+\`, Descriptor{{Key: "p", Value: `\d+\`}}, ""},
		{"spaces belong to the value", `ua=a b `, Descriptor{{Key: "ua", Value: "a b "}}, ""},
		{"nothing is no descriptor", ``, nil, "empty"},
		{"an entry without = is shown", `user=ann,path`, nil, `"path" in "user=ann,path" has no "="`},
		{"a trailing comma is an entry without =", `user=ann,`, nil, `"" in "user=ann,"`},
		{"a key is needed", `=ann`, nil, `"=ann" in "=ann" has no key`},
	} {
		t.Run(c.promise, func(t *testing.T) {
			got, err := ParseDescriptor(c.text)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("ParseDescriptor(%q) gave error %v, want one with %q, so that the user sees what is wrong",
						c.text, err, c.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("ParseDescriptor(%q) = %q, %v, want %q", c.text, got, err, c.want)
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
		want := Descriptor{{Key: k1, Value: v1}, {Key: k2, Value: v2}}
		got, err := ParseDescriptor(want.String())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is shown as %q, which reads as %q, %v", want, want.String(), got, err)
		}
	})
}
