package rls

import (
	"context"
	"io"
	"log/slog"
	"testing"

	"google.golang.org/protobuf/proto"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// benchService answers requests of a rule whose limit is reached, and of one whose limit never is. What it denies is kept
// and told to Envoy, or neither.
func benchService(b *testing.B, telling bool) *Service {
	b.Helper()
	config, problems := yaml.Parse([]yaml.File{{Name: "shop.yaml", Data: []byte(`
domain: shop
descriptors:
  - key: user
    descriptors:
      - {key: path, value: /pay, rate_limit: {requests_per_unit: 0, unit: minute, name: payments}}
      - {key: path, value: /browse, rate_limit: {requests_per_unit: 4000000000, unit: hour, name: browsing}}
`)}}, yaml.Options{})
	if err := problems.Err(); err != nil {
		b.Fatal(err)
	}
	store, err := memory.Open(memory.Config{MaxKeys: 1000, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	options := limit.Options{Algorithm: descriptors.SlidingWindow}
	if telling {
		options.Denials = denials.New()
	}
	l := limit.New(store, options, hits.New(0))
	l.Apply(config)
	return New(l, Options{DeniedMetadata: telling, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, nobody{})
}

// BenchmarkAnswer takes a request from its bytes to the bytes of its answer, as whoever serves gRPC does.
func BenchmarkAnswer(b *testing.B) {
	for name, path := range map[string]string{"denied": "/pay", "admitted": "/browse"} {
		data, err := proto.Marshal(&ratelimit.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}, {Key: "path", Value: path}}}}})
		if err != nil {
			b.Fatal(err)
		}
		for how, telling := range map[string]bool{"": true, " and told to nobody": false} {
			b.Run(name+how, func(b *testing.B) {
				s := benchService(b, telling)
				b.ReportAllocs()
				for b.Loop() {
					call := s.calls.Get().(*limit.Call)
					if err := decode(data, call); err != nil {
						b.Fatal(err)
					}
					if _, err := s.answer(context.Background(), call); err != nil {
						b.Fatal(err)
					}
					s.release(call)
				}
			})
		}
	}
}
