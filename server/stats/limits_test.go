package stats

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

func TestEachConfiguredLimitIsAGauge(t *testing.T) {
	m, l := New("test"), limit.New(nil, limit.Options{}, hits.New(0))
	m.Limiter(l)
	gauges := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		var got strings.Builder
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "weir_limit_requests{") {
				got.WriteString(line)
			}
		}
		return got.String()
	}
	if got := gauges(); got != "" {
		t.Errorf("without a configuration there is %s", got)
	}
	c, problems := yaml.Parse([]yaml.File{{Name: "f", Data: []byte(`
domain: shop
descriptors:
- key: user
  rate_limits:
  - {requests_per_unit: 10, unit: minute}
  - {requests_per_unit: 10, unit: minute, algorithm: fixed_window}
  - {requests_per_unit: 500, unit: hour, unit_multiplier: 2}
- {key: path, value: /a, rate_limit: {requests_per_unit: 0, unit: day}}
- {key: free, rate_limit: {unlimited: true}}
`)}}, yaml.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	l.Apply(c)
	const want = `weir_limit_requests{domain="shop",limit="0/day",path="path=%2Fa"} 0
weir_limit_requests{domain="shop",limit="10/minute",path="user"} 10
weir_limit_requests{domain="shop",limit="500/2hour",path="user"} 500
`
	if got := gauges(); got != want {
		t.Errorf("got\n%s\nwant\n%s, each once, though two limits read alike", got, want)
	}
}
