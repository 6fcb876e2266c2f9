package descriptors_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
)

// explained is the configuration that explanations speak of.
func explained(t *testing.T) *descriptors.Config {
	t.Helper()
	text, err := os.ReadFile("testdata/explained.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return fixture.Config(t, string(text))
}

func TestExplainIsReadable(t *testing.T) {
	c := explained(t)
	for want, d := range map[string]descriptors.Descriptor{`
domain shop (0.yaml:1)
  user=ann
    →  user          0.yaml:3   applies
    ·  user=monitor  0.yaml:12  does not fit
    ·  user=bot-*    0.yaml:14  does not fit
    ·  route         0.yaml:18  does not fit
  path=/pay
    →  path=/pay       0.yaml:6  applies
    ·  path=/static/*  0.yaml:9  does not fit
Rule user/path=/pay (0.yaml:6) applies.
`: {{"user", "ann"}, {"path", "/pay"}}, `
domain shop (0.yaml:1)
  user=bot-1
    →  user=bot-*    0.yaml:14  applies
    ·  user          0.yaml:3   fits too, but comes after: first exact values, then patterns in their order, then keys alone
    ·  user=monitor  0.yaml:12  does not fit
    ·  route         0.yaml:18  does not fit
  host=a
    ·  path  0.yaml:17  does not fit
No rule applies: below user=bot-* (0.yaml:14) nothing fits host=a.
`: {{"user", "bot-1"}, {"host", "a"}}} {
		if got := "\n" + c.Explain("shop", d).String(); got != want {
			t.Errorf("got%s\nwant%s", got, want)
		}
	}
}

func TestExplainSaysWhyThereIsNoRule(t *testing.T) {
	c := explained(t)
	tests := []struct {
		domain string
		d      descriptors.Descriptor
		want   string
	}{
		{"shop", nil, "No rule applies: the descriptor has no entries."},
		{"shop", descriptors.Descriptor{{"host", "a"}, {"user", "ann"}}, "No rule applies: in domain shop nothing fits host=a."},
		{"shop", descriptors.Descriptor{{"route", "a"}, {"host", "a"}, {"method", "GET"}}, "No rule applies: below route (0.yaml:18) nothing fits host=a."},
		{"shop", descriptors.Descriptor{{"user", "monitor"}},
			"No rule applies: user=monitor (0.yaml:12) has no limit, so it lets through what it matches."},
		{"shop", descriptors.Descriptor{{"route", "a"}},
			"No rule applies: the descriptor ends on route (0.yaml:18), which has no limit of its own, only below it."},
		{"elsewhere", nil, "No file configures domain elsewhere. The configured ones are shop."},
		{"\x1b[2J", nil, "No file configures domain �[2J. The configured ones are shop."},
	}
	for _, test := range tests {
		if got := c.Explain(test.domain, test.d).Reason; got != test.want {
			t.Errorf("%v\n got %s\nwant %s", test.d, got, test.want)
		}
	}
	x := new(descriptors.Config).Explain("shop", nil)
	if x.Reason != "No domain is configured at all." || x.Match != (descriptors.Match{}) {
		t.Errorf("got %s, and %+v", x.Reason, x.Match)
	}
}

func TestExplainStaysShortInALargeConfiguration(t *testing.T) {
	c := many(10_000)
	got := c.Explain("shop", descriptors.Descriptor{{"user", "u77"}}).String()
	if strings.Count(got, "does not fit") != 10 || !strings.Contains(got, "u0 ") || !strings.Contains(got, "u9 ") ||
		!strings.Contains(got, "and 9989 more\n") {
		t.Errorf("want the first 10 of 9999 other children; got %s", got)
	}
	var domains []*descriptors.Domain
	for i := range 50 {
		domains = append(domains, &descriptors.Domain{Name: fmt.Sprint("domain-", i)})
	}
	c = descriptors.NewConfig(descriptors.Keys{}, domains, nil)
	if got := c.Explain("x", nil).Reason; !strings.HasSuffix(got, "domain-16, domain-17 and 40 more.") {
		t.Errorf("want the first 10 of 50 domains; got %s", got)
	}
}
