package e2e_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// Two weirs on one Redis, of which only the first spares: what the one left alone, the other counts.
func TestARefusedRequestCountsOnlyWhereItIsOverIfToldTo(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	const rules = `
- key: plan
  value: tight
  descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 2, algorithm: fixed_window }
- key: plan
  value: wide
  descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 100 }
`
	sparing := startWeir(t, rules, "REDIS_URL="+server.Addr, patientRedis, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true")
	plain := startWeir(t, rules, "REDIS_URL="+server.Addr, patientRedis)
	eventually(t, "Redis counts", func() error {
		_, err := sparing.client(t).look("wide", "ann")
		return err
	})
	for _, step := range []struct {
		name        string
		ask         *weir
		over        bool
		left        uint32 // of 100, as the answer has it
		tight, wide uint64 // as weir counters has them then
	}{
		{"the first passes", sparing, false, 99, 1, 1},
		{"the second passes", sparing, false, 98, 2, 2},
		{"the third is refused", sparing, true, 98, 3, 2},
		{"the fourth is refused", sparing, true, 98, 4, 2},
		{"a weir that was not told counts it everywhere", plain, true, 97, 5, 3},
		{"back at the first", sparing, true, 97, 6, 3},
	} {
		answer := step.ask.askBoth(t)
		if over := answer.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT; over != step.over {
			t.Errorf("%s: %v, want over %v", step.name, answer.OverallCode, step.over)
		}
		if s := answer.Statuses[1]; s.Code != rlspb.RateLimitResponse_OK || s.LimitRemaining != step.left {
			t.Errorf("%s: the descriptor that has room is answered %v, want OK with %d left", step.name, s, step.left)
		}
		if tight, wide := step.ask.hits(t, "tight"), step.ask.hits(t, "wide"); tight != step.tight || wide != step.wide {
			t.Errorf("%s: %d and %d hits count, want %d where it is over and %d where there is room", step.name, tight, wide, step.tight, step.wide)
		}
	}
}

// askBoth asks for a hit of ann under both plans.
func (w *weir) askBoth(t *testing.T) *rlspb.RateLimitResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	answer, err := w.client(t).rls.ShouldRateLimit(ctx, &rlspb.RateLimitRequest{
		Domain: "shop", Descriptors: []*descriptorpb.RateLimitDescriptor{describe("tight", "ann"), describe("wide", "ann")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(answer.Statuses); n != 2 {
		t.Fatalf("two descriptors were answered with %d statuses", n)
	}
	return answer
}

// hits returns what weir counters says of ann under a plan.
func (w *weir) hits(t *testing.T, plan string) uint64 {
	t.Helper()
	counters := process.Start(t, "weir counters", nil, weirBinary, "counters", "get", "--admin", strings.TrimPrefix(w.admin, "http://"),
		"--domain", "shop", "--descriptor", "plan="+plan+",user=ann", "--json")
	code := counters.ExitCode(t)
	var said struct{ Limits []struct{ Hits uint64 } }
	if err := json.Unmarshal([]byte(counters.Log.String()), &said); err != nil || code != 0 || len(said.Limits) != 1 {
		t.Fatalf("weir counters of plan %s ended with exit code %d and %q (%v), want one limit", plan, code, counters.Log.String(), err)
	}
	return said.Limits[0].Hits
}
