// Package rls serves Envoy's RateLimitService v3, over gRPC and as JSON. It translates between protobuf and weir's types.
package rls

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that all other messages go through
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	// The descriptor of the service, for reflection, and the messages that /json reads and writes.
	_ "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// ServiceName is the gRPC service, as clients and health checks name it.
const ServiceName = "envoy.service.ratelimit.v3.RateLimitService"

// Method is the full gRPC name of the method.
const Method = "/" + ServiceName + "/ShouldRateLimit"

// Service answers rate-limit requests.
type Service struct {
	limiter     *limit.Limiter
	options     Options
	observe     func(AnsweredRequest)
	info        *grpc.UnaryServerInfo // of the method
	handler     grpc.UnaryHandler     // calls answer
	calls       sync.Pool             // of *inboundCall
	jsonReaders chan struct{}         // semaphore of the JSON readers
}

// inboundCall is a received request: its message, and the decoded call.
type inboundCall struct {
	message string
	json    bool
	limit.Call
}

// Options select the contents of answers besides the verdict. The zero value adds nothing.
type Options struct {
	Headers         Headers
	DynamicMetadata bool         // send Envoy the request, and the metadata of the rules that let it pass
	DeniedMetadata  bool         // send Envoy the rule and the limit that refused the request
	Log             *slog.Logger // gets a debug line for each request, with its descriptors; may be nil
}

// AnsweredRequest describes an answered request.
type AnsweredRequest struct {
	Result  limit.Result
	Took    time.Duration
	JSON    bool            // it came as JSON
	Call    *limit.Call     // valid only during observe
	Context context.Context // of the request
}

// New makes the service. It calls observe for every answered request, on the request path and from many goroutines.
func New(l *limit.Limiter, options Options, observe func(AnsweredRequest)) *Service {
	s := &Service{limiter: l, options: options, observe: observe, calls: sync.Pool{New: func() any { return new(inboundCall) }},
		jsonReaders: make(chan struct{}, maxJSONReaders)}
	s.info = &grpc.UnaryServerInfo{Server: s, FullMethod: Method}
	s.handler = func(ctx context.Context, in any) (any, error) { return s.answer(ctx, in.(*inboundCall)) }
	return s
}

// Register adds the service to a server whose codec is [NewCodec].
func (s *Service) Register(to grpc.ServiceRegistrar) {
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
		Metadata:    "envoy/service/ratelimit/v3/rls.proto",
	}, s)
}

// shouldRateLimit is grpc-go's handler of the method. decode only stores the message in its argument.
func shouldRateLimit(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	s := srv.(*Service)
	in := s.calls.Get().(*inboundCall)
	defer s.release(in)
	if err := decode(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return s.answer(ctx, in)
	}
	return interceptor(ctx, in, s.info, s.handler)
}

func (s *Service) release(in *inboundCall) {
	in.Reset()
	in.message, in.json = "", false
	s.calls.Put(in)
}

// answer decodes and answers a request. Interceptors recover from a panic of decode here, not from one in the codec.
func (s *Service) answer(ctx context.Context, in *inboundCall) (*reply, error) {
	begin := time.Now()
	err := decode(in.message, &in.Call)
	if err != nil && !in.Cut {
		return nil, status.Error(codes.Internal, "grpc: error unmarshalling request: RateLimitRequest: "+err.Error())
	}
	return s.decide(ctx, in, begin)
}

// decide decides a request that arrived at begin, and encodes the verdict. The call may be reused afterwards.
func (s *Service) decide(ctx context.Context, in *inboundCall, begin time.Time) (*reply, error) {
	c := &in.Call
	c.At = begin
	err := s.limiter.Decide(ctx, c)
	var out *reply
	switch {
	case err == nil:
		out = &reply{encoded: s.encode(c)}
	case c.Result == limit.Invalid:
		err = status.Error(codes.InvalidArgument, err.Error())
	default:
		err = status.Error(codes.Unavailable, err.Error())
	}
	took := time.Since(begin)
	s.observe(AnsweredRequest{c.Counted(), took, in.json, c, ctx})
	if s.options.Log != nil && s.options.Log.Enabled(ctx, slog.LevelDebug) {
		s.logTrace(ctx, c, err, took)
	}
	return out, err
}

// logTrace logs how a request came to its answer. An error is logged with the text that the caller gets.
func (s *Service) logTrace(ctx context.Context, c *limit.Call, err error, took time.Duration) {
	attrs := []slog.Attr{slog.String("domain", descriptors.Abbreviate(c.Domain)), slog.String("answer", c.Counted().String()),
		slog.String("took", took.String()), slog.String("trace", c.Trace())}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.options.Log.LogAttrs(ctx, slog.LevelDebug, "request", attrs...)
}

// reply is an encoded RateLimitResponse, in the buffers that grpc-go needs to send it without another allocation.
type reply struct {
	encoded mem.SliceBuffer
	buffers [1]mem.Buffer
}

// Codec is the codec of a gRPC server that has the rate-limit service. It encodes that service's messages without
// reflection, which saves a tenth of a request's cost, and all others as protobuf's codec does. Its name is "proto" too,
// because the bytes are the same.
type Codec struct{ encoding.CodecV2 }

// NewCodec makes the codec, for grpc.ForceServerCodecV2.
func NewCodec() Codec { return Codec{encoding.GetCodecV2("proto")} }

// Marshal encodes a message.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*reply); ok {
		r.buffers[0] = &r.encoded
		return r.buffers[:], nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes a message into v. If that is a RateLimitRequest, it only copies the bytes, for the handler to decode;
// if they are more than MaxRequest, it copies only the beginning, which has the domain.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*inboundCall)
	if !ok {
		if bounded, ok := v.(interface{ Fits(bytes int) bool }); ok && !bounded.Fits(data.Len()) {
			return nil // the handler refuses it
		}
		return c.CodecV2.Unmarshal(data, v)
	}
	in.Cut = data.Len() > MaxRequest
	n := data.Len()
	if in.Cut {
		n = cutBytes
	}
	var message strings.Builder // clears no memory, and copies a long message only once
	message.Grow(n)
	for _, part := range data {
		message.Write(part.ReadOnlyData()[:min(part.Len(), n-message.Len())])
	}
	in.message = message.String()
	return nil
}
