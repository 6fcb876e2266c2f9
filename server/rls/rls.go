// Package rls serves Envoy's RateLimitService v3, over gRPC and as JSON. Only here does protobuf become weir's types.
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

// Method is the full name of the method, as gRPC has it.
const Method = "/" + ServiceName + "/ShouldRateLimit"

// Service answers rate-limit requests.
type Service struct {
	limiter *limit.Limiter
	options Options
	observe func(Answered)
	info    *grpc.UnaryServerInfo // of the method
	handler grpc.UnaryHandler     // answer
	calls   sync.Pool             // of *inbound
	reading chan struct{}         // has one for each reader of JSON
}

// inbound is a request that was received: its message, and what is decoded of it.
type inbound struct {
	message string
	json    bool
	limit.Call
}

// Options are what answers hold beside the verdict. The zero value adds nothing.
type Options struct {
	Headers         Headers
	DynamicMetadata bool         // hand Envoy the request, and the metadata of the rules that let it pass
	DeniedMetadata  bool         // hand Envoy the rule and the limit that refused the request
	Log             *slog.Logger // hears of each request at level debug, with its descriptors; nil hears nothing
}

// Answered is what became of a request.
type Answered struct {
	Result  limit.Result
	Took    time.Duration
	JSON    bool            // it came as JSON
	Call    *limit.Call     // the observer must not keep it
	Context context.Context // of the request
}

// New makes the service. observe is told of every request that was answered: on the request path, by many goroutines.
func New(l *limit.Limiter, options Options, observe func(Answered)) *Service {
	s := &Service{limiter: l, options: options, observe: observe, calls: sync.Pool{New: func() any { return new(inbound) }},
		reading: make(chan struct{}, readers)}
	s.info = &grpc.UnaryServerInfo{Server: s, FullMethod: Method}
	s.handler = func(ctx context.Context, in any) (any, error) { return s.answer(ctx, in.(*inbound)) }
	return s
}

// Register adds the service to a server that has [NewCodec] as its codec.
func (s *Service) Register(to grpc.ServiceRegistrar) {
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
		Metadata:    "envoy/service/ratelimit/v3/rls.proto",
	}, s)
}

// shouldRateLimit is the method's handler, as grpc-go has it. What decode is given only keeps the message.
func shouldRateLimit(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	s := srv.(*Service)
	in := s.calls.Get().(*inbound)
	defer s.release(in)
	if err := decode(in); err != nil {
		return nil, err
	}
	if interceptor == nil {
		return s.answer(ctx, in)
	}
	return interceptor(ctx, in, s.info, s.handler)
}

func (s *Service) release(in *inbound) {
	in.Reset()
	in.message, in.json = "", false
	s.calls.Put(in)
}

// answer decodes and answers a request. It decodes as well, so that interceptors see a panic there.
func (s *Service) answer(ctx context.Context, in *inbound) (*reply, error) {
	begin := time.Now()
	err := decode(in.message, &in.Call)
	if err != nil && !in.Cut {
		return nil, status.Error(codes.Internal, "grpc: error unmarshalling request: RateLimitRequest: "+err.Error())
	}
	return s.decide(ctx, in, begin)
}

// decide decides a request that came at begin, and encodes the verdict. The call can be reused when it returns.
func (s *Service) decide(ctx context.Context, in *inbound, begin time.Time) (*reply, error) {
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
	s.observe(Answered{c.Counted(), took, in.json, c, ctx})
	if s.options.Log != nil && s.options.Log.Enabled(ctx, slog.LevelDebug) {
		s.logTrace(ctx, c, err, took)
	}
	return out, err
}

// logTrace logs how a request came to its answer. Of an error it has the text that the caller gets.
func (s *Service) logTrace(ctx context.Context, c *limit.Call, err error, took time.Duration) {
	attrs := []slog.Attr{slog.String("domain", descriptors.Abbreviate(c.Domain)), slog.String("answer", c.Counted().String()),
		slog.String("took", took.String()), slog.String("trace", c.Trace())}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.options.Log.LogAttrs(ctx, slog.LevelDebug, "request", attrs...)
}

// reply is an encoded RateLimitResponse, and the room to hand it to grpc-go without another allocation.
type reply struct {
	encoded mem.SliceBuffer
	buffers [1]mem.Buffer
}

// Codec is the codec for a gRPC server that offers the rate-limit service. It reads and writes that service's messages
// without reflection, which saves a tenth of a request's cost, and leaves all others to protobuf's own. It has the name
// of that, as the bytes are the same.
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

// Unmarshal decodes a message into v. Of a request it keeps a copy for the method's handler to decode; of one that is
// longer than MaxRequest only the beginning, which has the domain.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*inbound)
	if !ok {
		if bounded, ok := v.(interface{ Fits(bytes int) bool }); ok && !bounded.Fits(data.Len()) {
			return nil // it tells its caller
		}
		return c.CodecV2.Unmarshal(data, v)
	}
	in.Cut = data.Len() > MaxRequest
	n := data.Len()
	if in.Cut {
		n = cutTo
	}
	var message strings.Builder // which clears no memory, and a long message is copied once
	message.Grow(n)
	for _, part := range data {
		message.Write(part.ReadOnlyData()[:min(part.Len(), n-message.Len())])
	}
	in.message = message.String()
	return nil
}
