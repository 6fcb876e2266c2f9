package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Envoy's tracers pass on callers' headers: if weir refused long ones, a long tracestate would bypass every limit.
func TestLongHeadersAreAccepted(t *testing.T) {
	r := start(t, setup{})
	r.configure(t)
	for bytes, want := range map[int]codes.Code{100: codes.OK, 9000: codes.OK, 61_440: codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tracestate", strings.Repeat("x", bytes))
		if _, err := r.client().ShouldRateLimit(ctx, ask(t, "user=ann")); status.Code(err) != want {
			t.Errorf("a call with a header of %d bytes gets %v, want %v: Envoy takes 60 KiB", bytes, err, want)
		}
	}
}

func TestCallsWithManyHeadersAreRefused(t *testing.T) {
	r := start(t, setup{})
	r.configure(t)
	many := metadata.MD{"a": make([]string, maxHeaders)}
	_, err := r.client().ShouldRateLimit(metadata.NewOutgoingContext(t.Context(), many), new(ratelimit.RateLimitRequest))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call with %d headers and those of gRPC gets %v, want RESOURCE_EXHAUSTED: each takes 250 bytes", maxHeaders, err)
	}
}
