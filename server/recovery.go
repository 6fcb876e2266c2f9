package server

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// recovery turns a panic in a handler into an error of its call. A panic is a defect.
type recovery struct {
	log     *slog.Logger
	onPanic func()
	trace   Tracer // ends the spans of calls; may be nil
}

func (r recovery) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	if r.trace != nil { // here, because gRPC would allocate for a second interceptor
		defer func() { r.trace.End(ctx, err) }()
	}
	defer r.toError(info.FullMethod, &err)
	return handle(ctx, req)
}

func (r recovery) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer r.toError(info.FullMethod, &err)
	return handle(srv, s)
}

// toError recovers from a panic and makes it the call's error.
func (r recovery) toError(method string, err *error) {
	if p := recover(); p != nil {
		r.onPanic()
		r.log.Error("panic in a call", "method", method, "panic", p, "stack", string(debug.Stack()), "remedy", "please report it")
		*err = status.Error(codes.Internal, "internal error")
	}
}

// boundHeaders refuses calls with more than maxHeaders headers before they take memory: a header costs weir 250 bytes,
// and its sender one. It starts the spans of the other calls.
func boundHeaders(trace Tracer) tap.ServerInHandle {
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		n := 0
		for _, values := range call.Header {
			n += len(values)
		}
		if n > maxHeaders {
			return nil, status.Errorf(codes.ResourceExhausted, "the call has %d headers, and %d are the most", n, maxHeaders)
		}
		if trace != nil {
			ctx = trace.Begin(ctx, call)
		}
		return ctx, nil
	}
}

// maxReflections is how many reflection streams may begin in a second: an answer holds 100 KB until the client has read
// it, and weir does not learn when.
const maxReflections = 16

// boundReflection refuses reflection streams beyond maxReflections.
func boundReflection() grpc.StreamServerInterceptor {
	recent := make(chan struct{}, maxReflections)
	return func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if !strings.HasPrefix(info.FullMethod, "/grpc.reflection.") {
			return handle(srv, s)
		}
		select {
		case recent <- struct{}{}:
			time.AfterFunc(time.Second, func() { <-recent })
			return handle(srv, s)
		default:
			return status.Errorf(codes.ResourceExhausted, "%d reflection streams have begun in the last second, and no more may: try again", maxReflections)
		}
	}
}

// endStreamsWith returns an interceptor that ends all streams, including health watches, when ctx ends, so that a
// graceful stop does not wait for clients.
func endStreamsWith(ctx context.Context) grpc.StreamServerInterceptor {
	return func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		streamCtx, cancel := context.WithCancel(s.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return handle(srv, boundStream{s, streamCtx})
	}
}

// boundStream is a stream with another context.
type boundStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the stream's context, which also ends with the server.
func (s boundStream) Context() context.Context { return s.ctx }
