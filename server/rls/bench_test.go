package rls

import (
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// BenchmarkRequest measures a request from its bytes to those of its answer, without grpc-go, with a guarded memory store.
func BenchmarkRequest(b *testing.B) {
	const rules = `
domain: shop
descriptors:
  - {key: user, rate_limit: {requests_per_unit: 4000000000, unit: hour}}
  - {key: both, rate_limits: [{requests_per_unit: 4000000000, unit: minute}, {requests_per_unit: 4000000000, unit: hour}]}
  - {key: closed, rate_limit: {requests_per_unit: 0, unit: hour}}
`
	for _, bench := range []struct {
		name    string
		options Options
		asks    []string
	}{
		{"one descriptor", Options{}, []string{"user=ann"}}, {"two descriptors of three limits", Options{}, []string{"user=ann", "both=ann"}},
		{"no rule", Options{}, []string{"nobody=ann"}}, {"denied by the deny cache", Options{}, []string{"closed=ann"}},
		{"denied, and told why", Options{DeniedMetadata: true}, []string{"closed=ann"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := serve(guard.New(fixture.Memory(b, nil), guard.Config{}), fixture.Config(b, rules),
				limit.Options{Algorithm: descriptors.SlidingWindow}, bench.options)
			data := written(b, &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: parseDescriptors(b, bench.asks...)})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.answerTo(b.Context(), data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
