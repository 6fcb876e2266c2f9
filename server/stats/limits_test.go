package stats

import (
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

func TestEachConfiguredLimitIsAGauge(t *testing.T) {
	m, l := New("test"), limit.New(nil, limit.Options{}, hits.New(0))
	m.Limiter(l)
	gauges := func() string { return strings.Join(m.shows("weir_limit_requests{"), "\n") }
	if got := gauges(); got != "" {
		t.Errorf("without a configuration there is %s", got)
	}
	l.Apply(fixture.Config(t, `
domain: shop
descriptors:
- key: user
  rate_limits:
  - {requests_per_unit: 10, unit: minute}
  - {requests_per_unit: 10, unit: minute, algorithm: fixed_window}
  - {requests_per_unit: 500, unit: hour, unit_multiplier: 2}
- {key: path, value: /a, rate_limit: {requests_per_unit: 0, unit: day}}
- {key: free, rate_limit: {unlimited: true}}
`))
	const want = `weir_limit_requests{domain="shop",limit="0/day",path="path=%2Fa"} 0
weir_limit_requests{domain="shop",limit="10/minute",path="user"} 10
weir_limit_requests{domain="shop",limit="500/2hour",path="user"} 500`
	if got := gauges(); got != want {
		t.Errorf("got\n%s\nwant\n%s, each once, though two limits read alike", got, want)
	}
}
