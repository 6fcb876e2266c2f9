package main

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

func TestWrongAnswersAreRefused(t *testing.T) {
	const ok, over = ratelimit.RateLimitResponse_OK, ratelimit.RateLimitResponse_OVER_LIMIT
	type answer = ratelimit.RateLimitResponse
	status := func(limits ...uint32) (statuses []*ratelimit.RateLimitResponse_DescriptorStatus) {
		for _, limit := range limits {
			statuses = append(statuses, &ratelimit.RateLimitResponse_DescriptorStatus{
				CurrentLimit: &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: limit},
			})
		}
		return statuses
	}
	denied := scenario{Name: "denied", Limit: 10, Want: over}
	three := scenario{Name: "three-descriptors", Descriptors: 3, Limit: 10, Want: ok}
	for _, c := range []struct {
		name     string
		scenario scenario
		answer   *answer
		want     string // in the error; "": none
	}{
		{"right", denied, &answer{OverallCode: over, Statuses: status(10)}, ""},
		{"admitted", denied, &answer{OverallCode: ok, Statuses: status(10)}, "the verdict is OK, not OVER_LIMIT"},
		{"no status", denied, &answer{OverallCode: over}, "0 statuses, not 1"},
		{"another rule", denied, &answer{OverallCode: over, Statuses: status(11)}, "the current limit is 11, not 10"},
		{"all three", three, &answer{OverallCode: ok, Statuses: status(10, 10, 10)}, ""},
		{"one of three", three, &answer{OverallCode: ok, Statuses: status(10)}, "1 statuses, not 3"},
		{"no rule for the third", three, &answer{OverallCode: ok, Statuses: status(10, 10, 0)}, "is 0, not 10"},
	} {
		err := c.scenario.check(c.answer)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}

// counting answers as a rate-limit service does whose rules all have one limit.
type counting struct {
	ratelimit.UnimplementedRateLimitServiceServer
	limit  uint32
	charge func(explicit bool, hits uint64) uint64 // what a descriptor is charged that has, or lacks, hits of its own

	mu   sync.Mutex
	held map[string]uint32
}

func (c *counting) ShouldRateLimit(_ context.Context, r *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}
	for _, d := range r.GetDescriptors() {
		key := d.GetEntries()[0].String()
		c.held[key] += uint32(c.charge(d.HitsAddend != nil, d.GetHitsAddend().GetValue()))
		answer.Statuses = append(answer.Statuses, &ratelimit.RateLimitResponse_DescriptorStatus{
			CurrentLimit:   &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: c.limit},
			LimitRemaining: c.limit - c.held[key],
		})
	}
	return answer, nil
}

// connectTo serves c until the test ends.
func connectTo(t *testing.T, c *counting) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.held = make(map[string]uint32)
	s := grpc.NewServer()
	ratelimit.RegisterRateLimitServiceServer(s, c)
	go func() { _ = s.Serve(listener) }()
	conn, err := dial(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
	})
	return conn
}

func TestAScenarioOfLooksIsRefusedWhereTheyAreNone(t *testing.T) {
	one := func(bool, uint64) uint64 { return 1 }
	none := func(bool, uint64) uint64 { return 0 }
	looks := func(explicit bool, hits uint64) uint64 {
		if explicit {
			return hits
		}
		return 1
	}
	s := scenario{Rule: "looks", Look: true, Limit: 1000, Want: ratelimit.RateLimitResponse_OK}
	for _, c := range []struct {
		name   string
		charge func(bool, uint64) uint64
		want   string
	}{
		{"it looks", looks, ""},
		{"it counts looks", one, "from 999 to 997"},
		{"it counts nothing", none, "from 1000 to 1000"},
	} {
		server := &counting{limit: 1000, charge: c.charge}
		_, err := s.probe(t.Context(), connectTo(t, server), 250)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
		if len(server.held) != 250 {
			t.Errorf("%s: %d keys hold a hit, want all 250 that are looked at", c.name, len(server.held))
		}
	}
}

func TestLooksThatWereCountedUnderLoadAreNoticed(t *testing.T) {
	server := &counting{limit: 1000, charge: func(_ bool, hits uint64) uint64 { return hits }}
	conn := connectTo(t, server)
	looks := scenario{Rule: "looks", Look: true, Limit: 1000, Want: ratelimit.RateLimitResponse_OK}
	if err := looks.confirm(t.Context(), conn, 1000); err != nil {
		t.Errorf("nothing was counted: %v, want no error", err)
	}
	if err := looks.confirm(t.Context(), conn, 1001); err == nil || !strings.Contains(err.Error(), "1000 remain of 1001") {
		t.Errorf("a hit was counted during the load: %v, want an error that tells how many are missing", err)
	}
	counts := scenario{Rule: "counts", Limit: 1000, Want: ratelimit.RateLimitResponse_OK}
	if err := counts.confirm(t.Context(), conn, 1001); err != nil {
		t.Errorf("a scenario that counts: %v, want no error", err)
	}
}
