package rls

import (
	"context"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// BenchmarkRequest is a request from its bytes to those of its answer, but for grpc-go, with the memory store behind a
// guard.
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
			store := fixture.Memory(b, nil)
			l := limit.New(guard.New(store, guard.Config{}), limit.Options{Algorithm: descriptors.SlidingWindow}, hits.New(100))
			l.Apply(fixture.Config(b, rules))
			s, codec := New(l, bench.options, unobserved), NewCodec()
			data := written(b, &ratelimit.RateLimitRequest{Domain: "shop", Descriptors: described(b, bench.asks...)})
			in, ctx := mem.BufferSlice{mem.SliceBuffer(data)}, b.Context()
			unmarshal := func(call any) error { return codec.Unmarshal(in, call) }
			intercept := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				return handle(ctx, request)
			}
			b.ReportAllocs()
			for b.Loop() {
				out, err := shouldRateLimit(s, ctx, unmarshal, intercept)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := codec.Marshal(out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
