package descriptors

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseDescriptorReadsEscapes(t *testing.T) {
	for text, want := range map[string]Descriptor{
		`user=ann`:  {{Key: "user", Value: "ann"}},
		`b=2,a=1`:   {{Key: "b", Value: "2"}, {Key: "a", Value: "1"}},
		`q=a=b=c`:   {{Key: "q", Value: "a=b=c"}}, // the first = separates
		`user=`:     {{Key: "user"}},
		`u=a\,b,x=`: {{Key: "u", Value: "a,b"}, {Key: "x"}},
		`a\,b=c`:    {{Key: "a,b", Value: "c"}},
		`p=a\\,q=b`: {{Key: "p", Value: `a\`}, {Key: "q", Value: "b"}},
		`p=\d+\`:    {{Key: "p", Value: `\d+\`}}, // any other backslash stands for itself
		`ua=a b `:   {{Key: "ua", Value: "a b "}},
	} {
		if got, err := ParseDescriptor(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ParseDescriptor(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		``:              "empty",
		`user=ann,path`: `"path" in "user=ann,path" has no "="`,
		`user=ann,`:     `"" in "user=ann,"`,
		`=ann`:          `"=ann" in "=ann" has no key`,
	} {
		if _, err := ParseDescriptor(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDescriptor(%q) gave error %v, want one with %q, so that the user sees what is wrong", text, err, want)
		}
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
