package rls

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

type nobody struct{}

func (nobody) Observe(limit.Result, time.Duration) {}

// Decoding is our own code as well: the interceptors, which catch panics, must stand around it.
func TestInterceptorsStandAroundTheDecoder(t *testing.T) {
	s := New(limit.New(nil, limit.Options{Algorithm: descriptors.SlidingWindow}, hits.New(0)), Options{}, nobody{})
	inside := false
	decode := func(any) error {
		if !inside {
			t.Error("the request is decoded outside of the interceptor: a panic there would end the process")
		}
		return context.Canceled
	}
	interceptor := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		inside = true
		if info.FullMethod != "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" {
			t.Errorf("the method is called %s", info.FullMethod)
		}
		return handle(ctx, req)
	}
	if _, err := shouldRateLimit(s, t.Context(), decode, interceptor); err != context.Canceled {
		t.Errorf("got %v, want the decoder's error", err)
	}
}
