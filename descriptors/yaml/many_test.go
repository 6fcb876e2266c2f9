package yaml

import (
	"fmt"
	"strings"
	"testing"
)

// Something quadratic would outlast the time that go test gives to all tests.
func TestTenThousandPatternsAreRead(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: shop\ndescriptors:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "- {key: path, value: /p%d/*, rate_limit: {unit: minute, requests_per_unit: %[1]d}}\n", i)
	}
	c, problems := Parse([]File{{"shop.yaml", []byte(b.String())}}, Options{})
	if len(problems) > 0 || len(c.Rules()) != 10_000 {
		t.Errorf("got %.500v", problems)
	}
}
