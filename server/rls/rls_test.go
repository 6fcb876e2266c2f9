package rls

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// world has a service with a memory store, whose clock only the test moves.
type world struct {
	*Service
	micros atomic.Int64
}

func newWorld(t testing.TB, config *descriptors.Config, limits limit.Options, o Options) *world {
	t.Helper()
	w := new(world)
	w.micros.Store(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).UnixMicro())
	limits.Algorithm = cmp.Or(limits.Algorithm, descriptors.SlidingWindow)
	w.Service = serve(fixture.Memory(t, func() time.Time { return time.UnixMicro(w.micros.Load()) }), config, limits, o)
	return w
}

func serve(store backend.Counter, config *descriptors.Config, limits limit.Options, o Options) *Service {
	l := limit.New(store, limits, hits.New(0))
	l.Apply(config)
	return New(l, o, func(AnsweredRequest) {})
}

// answerTo decodes a message, which may come in pieces, and returns the encoded answer, as grpc does.
func (s *Service) answerTo(ctx context.Context, pieces ...[]byte) ([]byte, error) {
	var message mem.BufferSlice
	for _, piece := range pieces {
		message = append(message, mem.SliceBuffer(piece))
	}
	answer, err := shouldRateLimit(s, ctx, func(v any) error {
		if err := NewCodec().Unmarshal(message, v); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	out, err := NewCodec().Marshal(answer)
	return out.Materialize(), err
}

// send sends a request, and reads the answer.
func (s *Service) send(t testing.TB, r *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	t.Helper()
	data, err := s.answerTo(t.Context(), written(t, r))
	if err != nil {
		return nil, err
	}
	answer := new(ratelimit.RateLimitResponse)
	if err := proto.Unmarshal(data, answer); err != nil {
		t.Fatalf("%x is no RateLimitResponse: %v", data, err)
	}
	return answer, nil
}

// ask requests n hits for descriptors of the domain shop. It fails the test at an error.
func (s *Service) ask(t testing.TB, n uint32, texts ...string) *ratelimit.RateLimitResponse {
	t.Helper()
	r := &ratelimit.RateLimitRequest{Domain: "shop", HitsAddend: n, Descriptors: parseDescriptors(t, texts...)}
	answer, err := s.send(t, r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// parseDescriptors parses descriptors as weir call does.
func parseDescriptors(t testing.TB, texts ...string) (all []*common.RateLimitDescriptor) {
	t.Helper()
	for _, text := range texts {
		entries, err := descriptors.ParseDescriptor(text)
		if err != nil {
			t.Fatal(err)
		}
		d := new(common.RateLimitDescriptor)
		for _, e := range entries {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		all = append(all, d)
	}
	return all
}

func written(t testing.TB, r *ratelimit.RateLimitRequest) []byte {
	t.Helper()
	data, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Interceptors recover from panics, so decode must run inside them.
func TestInterceptorsWrapTheDecoder(t *testing.T) {
	s := serve(nil, new(descriptors.Config), limit.Options{}, Options{})
	decode := func(in any) error { return NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer("\n\xff")}, in) }
	var inside error
	interceptor := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if info.FullMethod != "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" {
			t.Errorf("the method is called %s", info.FullMethod)
		}
		_, inside = handle(ctx, req)
		return nil, inside
	}
	_, err := shouldRateLimit(s, t.Context(), decode, interceptor)
	if status.Code(inside) != codes.Internal || err != inside {
		t.Errorf("got %v, inside the interceptor %v; want the decoder's error there: a panic outside ends the process", err, inside)
	}
}
