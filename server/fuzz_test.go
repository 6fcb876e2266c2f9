package server

import (
	"bytes"
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = bytes.Clone(data.Materialize())
	return nil
}

var _ encoding.CodecV2 = rawCodec{}

// Whatever bytes a client sends, it gets a proper answer or an error of its own, and nothing panics.
func FuzzShouldRateLimit(f *testing.F) {
	r := startWith(f, Config{}, limit.Options{Algorithm: descriptors.SlidingWindow}, rls.Options{
		Headers: rls.Headers{
			Answer: rls.Names{Limit: "limit", Remaining: "left", Reset: "reset"}, Request: rls.Names{Remaining: "quota"}, RetryAfter: true},
		DynamicMetadata: true,
	})
	r.configure(f)
	seed, err := proto.Marshal(request("shop", "ann"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Add([]byte("\n\x04shop\x12\x00\x12\x02\n\x00"))
	f.Add([]byte("\n\x04shop\x12\x16\n\x09\n\x04user\x12\x01a\x12\x09\x08\x01\x10\x06\x1a\x03\x08\xa5\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		var answer []byte
		err := r.conn.Invoke(ctx, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", data, &answer, grpc.ForceCodecV2(rawCodec{}))
		var want ratelimit.RateLimitRequest
		readable := proto.Unmarshal(data, &want) == nil
		switch code := status.Code(err); {
		case !readable && code == codes.Internal:
		case readable && code == codes.InvalidArgument && (want.Domain == "" || len(want.Descriptors) == 0):
		case readable && code == codes.OK:
			checkAnswer(t, &want, answer)
		default:
			t.Fatalf("%v (readable: %v): %v", &want, readable, err)
		}
		if r.panics.Load() > 0 {
			t.Fatal("the handler panicked: the interceptor is for what nobody thought of")
		}
	})
}

func checkAnswer(t *testing.T, want *ratelimit.RateLimitRequest, answer []byte) {
	t.Helper()
	var got ratelimit.RateLimitResponse
	if err := proto.Unmarshal(answer, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Statuses) != len(want.Descriptors) {
		t.Fatalf("%d statuses for %d descriptors", len(got.Statuses), len(want.Descriptors))
	}
	if got.DynamicMetadata.GetFields()["domain"].GetStringValue() != want.Domain {
		t.Fatalf("the metadata is of another request: %v", got.DynamicMetadata)
	}
	over := false
	for _, s := range got.Statuses {
		over = over || s.Code == ratelimit.RateLimitResponse_OVER_LIMIT
		if s.Code == ratelimit.RateLimitResponse_UNKNOWN || (s.CurrentLimit != nil && s.DurationUntilReset.GetSeconds() < 1) {
			t.Fatalf("a status that Envoy cannot use: %v", s)
		}
	}
	if over != (got.OverallCode == ratelimit.RateLimitResponse_OVER_LIMIT) {
		t.Fatalf("the overall code does not follow from the statuses: %v", &got)
	}
}
