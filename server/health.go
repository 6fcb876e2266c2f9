package server

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirproxy/weir/server/rls"
)

var (
	errUnconfigured = errors.New("no rate limit configuration loaded")
	errNoDomains    = errors.New("no rate limit configuration of at least one domain loaded")
	errUnanswered   = errors.New("the store of the counters has not answered yet")
	errDraining     = errors.New("draining")
	errStoreAway    = errors.New("the store of the counters does not answer")
	errDrainTimeout = errors.New("the drain has taken too long")
)

// HealthRules are the conditions for a healthy process. The zero value has weir's own.
type HealthRules struct {
	// ByStore makes gRPC health and /healthcheck good from the store's first answer until a drain. Under the name "" gRPC
	// health is then always good.
	ByStore bool
	// NeedsDomains makes a process unhealthy while its configuration has no domain.
	NeedsDomains bool
}

// Health tells load balancers and probes whether this process wants traffic: from its first configuration until it
// drains, unless its rules say otherwise. gRPC health checks see it under "", "ratelimit" and the service's full name.
type Health struct {
	grpc  *health.Server
	rules HealthRules

	mu         sync.Mutex // guards the fields below
	configured bool
	domains    int  // in the configuration
	answered   bool // the store has answered once
	storeAway  bool
	draining   bool

	ready, alive error // computed by update
}

// NewHealth returns the health of a process that has no configuration yet.
func NewHealth(r HealthRules) *Health {
	h := &Health{grpc: health.NewServer(), rules: r}
	h.update(func() {})
	return h
}

// Configured records that a configuration of that many domains is in force.
func (h *Health) Configured(domains int) {
	h.update(func() { h.configured, h.domains = true, domains })
}

// StoreAnswered records that the store of the counters has answered.
func (h *Health) StoreAnswered() { h.update(func() { h.answered = true }) }

// SetStoreAway records whether the store cannot count now. If it is never called, health does not depend on the store.
func (h *Health) SetStoreAway(away bool) { h.update(func() { h.storeAway = away }) }

// Drain makes the process unhealthy until it ends.
func (h *Health) Drain() { h.update(func() { h.draining = true }) }

// update applies a change and recomputes readiness and liveness, for gRPC health checks too.
func (h *Health) update(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
	draining, noDomains := errorIf(h.draining, errDraining), errorIf(h.rules.NeedsDomains && h.domains == 0, errNoDomains)
	unanswered, away := errorIf(h.rules.ByStore && !h.answered, errUnanswered), errorIf(h.storeAway, errStoreAway)
	h.ready = cmp.Or(draining, errorIf(!h.configured, errUnconfigured), noDomains, away)
	h.alive = cmp.Or(draining, noDomains, unanswered, away)
	nameless, named := h.ready, h.ready
	if h.rules.ByStore {
		nameless, named = nil, h.alive
	}
	for name, bad := range map[string]error{"": nameless, "ratelimit": named, rls.ServiceName: named} {
		s := healthpb.HealthCheckResponse_SERVING
		if bad != nil {
			s = healthpb.HealthCheckResponse_NOT_SERVING
		}
		h.grpc.SetServingStatus(name, s)
	}
}

// errorIf returns err if the condition holds, else nil.
func errorIf(applies bool, err error) error {
	if applies {
		return err
	}
	return nil
}

// Ready returns nil if the process should get traffic, else the reason why not.
func (h *Health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ready
}

// Alive is Ready for liveness probes: a missing configuration does not fail it, unless the rules say so.
func (h *Health) Alive() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.alive
}

// healthServer answers gRPC health checks.
type healthServer struct {
	*health.Server
	onCheck func(took time.Duration) // called for each check; may be nil
}

// Check answers a health check.
func (c healthServer) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	begin := time.Now()
	answer, err := c.Server.Check(ctx, r)
	if c.onCheck != nil {
		c.onCheck(time.Since(begin))
	}
	return answer, err
}
