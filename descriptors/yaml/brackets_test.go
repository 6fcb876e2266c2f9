package yaml

import (
	"strings"
	"testing"
)

// Each bracket of these files is left out, doubled or taken for another; none opens or closes on a line of its own.
var bracketed = []string{`domain: a
descriptors: [
  {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}, # a ] in a comment
  {key: "b}", rate_limit: {unit: minute, requests_per_unit: 5}},
  {key: c, rate_limit: {unit: minute, requests_per_unit: 5, replaces: [{name: 'it''s ['}]}},
  {key: d, rate_limit: {unit: minute, requests_per_unit: 5}}
]
`, `domain: a
descriptors:
  - key: user
    value: a]b
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: path
    rate_limit: {unit: minute, requests_per_unit: 5}
    descriptors:
      - {key: b, rate_limit: {unit: second, requests_per_unit: 5}}
      - {"key": "c", rate_limit: {unit: second, requests_per_unit: 5, replaces: [{name: a}]}}
  - key: last
    rate_limit: {unit: minute, requests_per_unit: 5}
`, `{"domain": "a",
 "descriptors": [
  {"key": "user", "rate_limit": {"unit": "minute", "requests_per_unit": 5}},
  {"key": "b", "rate_limit": {"unit": "minute", "requests_per_unit": 5}}
 ]
}
`}

func TestWrongBracketIsReportedAtItsLine(t *testing.T) {
	for _, text := range bracketed {
		for i, b := range []byte(text) {
			line := 1 + strings.Count(text[:i], "\n")
			whole := strings.Split(text, "\n")[line-1]
			if !strings.ContainsRune("[]{}", rune(b)) || strings.Count(whole, "[")+strings.Count(whole, "{") != strings.Count(whole, "]")+strings.Count(whole, "}") {
				continue
			}
			for _, wrong := range []string{"", string([]byte{b, b}), string([]byte{b ^ '[' ^ '{'})} {
				f := text[:i] + wrong + text[i+1:]
				_, problems := judge([]File{file("f", f)}, Options{})
				if len(problems) > 0 && problems[0].Line != line {
					t.Errorf("%q instead of %q in line %d is told at line %d: %v\n%s", wrong, b, line, problems[0].Line, problems[0], whole)
				}
			}
		}
	}
}
