package yaml

import "testing"

// TestYAMLIsReadAsRatelimitReadsIt compares with what gopkg.in/yaml.v2 makes of the same text.
func TestYAMLIsReadAsRatelimitReadsIt(t *testing.T) {
	for text, want := range map[string]uint64{
		"1_000": 1000, "010": 8, "0o10": 8, "0b11": 3, "0x1f": 31, "+5": 5, "2, requests_per_unit: 3": 3,
		"1, <<: {requests_per_unit: 2}": 2, "1, <<: [{requests_per_unit: 2}, {requests_per_unit: 3}]": 2,
	} {
		c, problems := judge([]File{file("f", under("rate_limit: {unit: day, requests_per_unit: "+text+"}"))}, Options{Lenient: true})
		if c == nil || c.Rules()[0].Limits[0].Requests != want {
			t.Errorf("requests_per_unit: %s is %v, %v, want %d", text, c.Rules(), problems, want)
		}
	}
	for _, text := range []string{"08", "10.0"} {
		c, _ := judge([]File{file("f", under("rate_limit: {unit: day, requests_per_unit: "+text+"}"))}, Options{})
		if c != nil {
			t.Errorf("requests_per_unit: %s is taken for %v", text, c.Rules()[0].Limits)
		}
	}
	for text, want := range map[string]bool{
		"yes": true, "Yes": true, "on": true, "ON": true, "y": true, "Y": true, "TRUE": true, "True": true, "true": true,
		"no": false, "off": false, "n": false, "N": false, "False": false, "": false, "~": false,
	} {
		c, problems := judge([]File{file("f", under("shadow_mode: "+text, aDay))}, Options{})
		if c == nil || c.Rules()[0].Shadow != want {
			t.Errorf("shadow_mode: %s is %v, %v, want %v", text, c.Rules(), problems, want)
		}
	}
}

// In the place of envoyproxy/ratelimit no name of a limit is refused, and what replaces it goes on replacing it alone.
func TestLenientParseEscapesLimitNames(t *testing.T) {
	text := `domain: d
descriptors:
- {key: k, rate_limit: {unit: day, requests_per_unit: 1, name: "a\r\n~ !"}}
- {key: l, rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: "a\r\n~ !"}]}}
- {key: m, rate_limit: {unlimited: true, name: 'a"\é'}}
`
	c, problems := judge([]File{file("f", text)}, Options{Lenient: true})
	if c == nil || len(problems) != 3 {
		t.Fatalf("got %v, want a configuration and a warning for each of 3 names", problems)
	}
	if got := problems[2].Error(); got != `f:5: domain d, m: name is sent as a%22%5C%C3%A9: `+
		`use printable ASCII without " and \, as Envoy writes it into a header` {
		t.Errorf("the warning is %s", got)
	}
	k, l, m := c.Rules()[0], c.Rules()[1], c.Rules()[2]
	if k.Limits[0].Name != "a%0D%0A~ !" || !k.ReplacedBy(l.Replaces) || m.ReplacedBy(l.Replaces) || m.Name != "a%22%5C%C3%A9" {
		t.Errorf("got the names %q and %q, and l replaces %q; want them escaped, and the first replaced", k.Limits[0].Name, m.Name, l.Replaces)
	}
}
