package main

import (
	"context"
	"fmt"
	"net"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// floor answers every request with the same message. What it costs is what grpc-go and the generated messages cost:
// the least that a server built on them in the ordinary way can do.
type floor struct {
	ratelimit.UnimplementedRateLimitServiceServer
	answer *ratelimit.RateLimitResponse
}

// ShouldRateLimit returns the constant answer.
func (f *floor) ShouldRateLimit(context.Context, *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	return f.answer, nil
}

// serveFloor serves the floor on addr, with grpc-go's default options.
func serveFloor(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("floor server: %w", err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	ratelimit.RegisterRateLimitServiceServer(server, &floor{answer: &ratelimit.RateLimitResponse{
		OverallCode: ratelimit.RateLimitResponse_OK,
		Statuses: []*ratelimit.RateLimitResponse_DescriptorStatus{{
			Code: ratelimit.RateLimitResponse_OK,
			CurrentLimit: &ratelimit.RateLimitResponse_RateLimit{
				RequestsPerUnit: limitOutOfReach,
				Unit:            ratelimit.RateLimitResponse_RateLimit_MINUTE,
			},
			LimitRemaining:     limitOutOfReach - 1,
			DurationUntilReset: durationpb.New(42 * time.Second),
		}},
	}})
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("floor server: %w", err)
	}
	return nil
}
