package main

import (
	"context"
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// filled is how many keys one request fills.
const filled = 100

// probe asks the server the scenario's question and reads the whole answer, so that a server that has other rules, or
// none, does not yield a fine figure. It first counts what the scenario needs, on as many keys as it is measured with.
// It returns what then remains of the first key's limit, for confirm.
func (s scenario) probe(ctx context.Context, conn *grpc.ClientConn, keys int) (remaining uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := ratelimit.NewRateLimitServiceClient(conn)
	switch {
	case s.Look:
		return s.fill(ctx, client, keys)
	case s.Want == ratelimit.RateLimitResponse_OVER_LIMIT:
		for range s.Limit {
			if _, err := client.ShouldRateLimit(ctx, s.request(0)); err != nil {
				return 0, fmt.Errorf("spend the limit: %w", err)
			}
		}
	}
	return s.ask(ctx, client)
}

// fill counts a hit on each key, so that there is something to look at. The looks before and after must show that hit
// and no other: then they are looks, and their answers are no constants.
func (s scenario) fill(ctx context.Context, client ratelimit.RateLimitServiceClient, keys int) (uint32, error) {
	before, err := s.ask(ctx, client)
	if err != nil {
		return 0, err
	}
	for first := 0; first < keys; first += filled {
		hit := &ratelimit.RateLimitRequest{Domain: domain}
		for key := first; key < min(first+filled, keys); key++ {
			for _, d := range s.request(key).GetDescriptors() {
				d.HitsAddend = nil
				hit.Descriptors = append(hit.Descriptors, d)
			}
		}
		if _, err := client.ShouldRateLimit(ctx, hit); err != nil {
			return 0, fmt.Errorf("count what is to be looked at: %w", err)
		}
	}
	after, err := s.ask(ctx, client)
	if err == nil && after+1 != before {
		err = fmt.Errorf("one hit between two looks took what remains from %d to %d: "+
			"the looks were counted, or they do not show what was", before, after)
	}
	return after, err
}

// confirm asks again after the load. Looks must have left what there was before it; in an hour hits may have left.
func (s scenario) confirm(ctx context.Context, conn *grpc.ClientConn, before uint32) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	after, err := s.ask(ctx, ratelimit.NewRateLimitServiceClient(conn))
	if err == nil && s.Look && after < before {
		err = fmt.Errorf("%d remain of %d: the looks were counted", after, before)
	}
	return err
}

// ask asks about the first key, checks the answer, and returns what remains.
func (s scenario) ask(ctx context.Context, client ratelimit.RateLimitServiceClient) (remaining uint32, err error) {
	answer, err := client.ShouldRateLimit(ctx, s.request(0))
	if err != nil {
		return 0, fmt.Errorf("ask about the first key: %w", err)
	}
	if err := s.check(answer); err != nil {
		return 0, err
	}
	return answer.GetStatuses()[0].GetLimitRemaining(), nil
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
