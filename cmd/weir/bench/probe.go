package main

import (
	"context"
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// probe asks the server the scenario's question and reads the whole answer, so that a server that has other rules, or
// none, does not yield a fine figure. It first spends the limit where the scenario is of denials.
func (s scenario) probe(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	client := ratelimit.NewRateLimitServiceClient(conn)
	if s.Want == ratelimit.RateLimitResponse_OVER_LIMIT {
		for range s.Limit {
			if _, err := client.ShouldRateLimit(ctx, s.request(0)); err != nil {
				return fmt.Errorf("spend the limit: %w", err)
			}
		}
	}
	answer, err := client.ShouldRateLimit(ctx, s.request(0))
	if err != nil {
		return fmt.Errorf("ask about the first key: %w", err)
	}
	return s.check(answer)
}

// check compares an answer with what the scenario's rule must yield.
func (s scenario) check(answer *ratelimit.RateLimitResponse) error {
	if answer.GetOverallCode() != s.Want {
		return fmt.Errorf("the verdict is %s, not %s: the server does not hold the rules of descriptors.yaml",
			answer.GetOverallCode(), s.Want)
	}
	if got, want := len(answer.GetStatuses()), max(1, s.Descriptors); got != want {
		return fmt.Errorf("the answer has %d statuses, not %d: one for each descriptor", got, want)
	}
	for _, status := range answer.GetStatuses() {
		if got := status.GetCurrentLimit().GetRequestsPerUnit(); got != s.Limit {
			return fmt.Errorf("the current limit is %d, not %d: the server does not hold the rules of descriptors.yaml",
				got, s.Limit)
		}
	}
	return nil
}
