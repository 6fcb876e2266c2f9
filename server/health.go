package server

import (
	"errors"
	"sync"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirproxy/weir/server/rls"
)

var (
	errUnconfigured = errors.New("no rate limit configuration loaded")
	errDraining     = errors.New("draining")
	errDrainTimeout = errors.New("the drain has taken too long")
)

// Health is whether this process wants traffic: it does from its first configuration until it drains. gRPC health
// checks see it under "", under ratelimit, which envoyproxy/ratelimit uses, and under the service's full name.
type Health struct {
	grpc *health.Server

	mu    sync.Mutex // protects state
	state error      // why it wants no traffic
}

// NewHealth is the health of a process that has no configuration yet.
func NewHealth() *Health {
	h := &Health{grpc: health.NewServer(), state: errUnconfigured}
	h.serve(healthpb.HealthCheckResponse_NOT_SERVING)
	return h
}

// Configured says that a configuration is in force.
func (h *Health) Configured() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if errors.Is(h.state, errUnconfigured) {
		h.state = nil
		h.serve(healthpb.HealthCheckResponse_SERVING)
	}
}

// Drain says that the process is about to go.
func (h *Health) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = errDraining
	h.serve(healthpb.HealthCheckResponse_NOT_SERVING)
}

// Ready is why the process should get no traffic, nil if it should.
func (h *Health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// Draining says whether the process is about to go.
func (h *Health) Draining() bool { return errors.Is(h.Ready(), errDraining) }

func (h *Health) serve(s healthpb.HealthCheckResponse_ServingStatus) {
	for _, name := range []string{"", "ratelimit", rls.ServiceName} {
		h.grpc.SetServingStatus(name, s)
	}
}
