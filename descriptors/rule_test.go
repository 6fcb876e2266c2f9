package descriptors

import "testing"

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
