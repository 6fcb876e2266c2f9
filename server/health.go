package server

import (
	"cmp"
	"errors"
	"sync"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirproxy/weir/server/rls"
)

var (
	errUnconfigured = errors.New("no rate limit configuration loaded")
	errDraining     = errors.New("draining")
	errUncounted    = errors.New("the store of the counters does not answer")
	errDrainTimeout = errors.New("the drain has taken too long")
)

// Health is whether this process wants traffic: it does from its first configuration until it drains. gRPC health
// checks see it under "", under ratelimit, which envoyproxy/ratelimit uses, and under the service's full name.
type Health struct {
	grpc *health.Server

	mu    sync.Mutex // protects both below
	state error      // why it wants no traffic
	away  error      // why its counters cannot be had
}

// NewHealth returns the health of a process that has no configuration yet.
func NewHealth() *Health {
	h := &Health{grpc: health.NewServer(), state: errUnconfigured}
	h.tell()
	return h
}

// Configured says that a configuration is in force.
func (h *Health) Configured() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if errors.Is(h.state, errUnconfigured) {
		h.state = nil
	}
	h.tell()
}

// Counting reports whether the counters can be had. A process that never hears of it does not depend on them.
func (h *Health) Counting(can bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = nil
	if !can {
		h.away = errUncounted
	}
	h.tell()
}

// Drain says that the process is about to go.
func (h *Health) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = errDraining
	h.tell()
}

// Ready returns why the process should get no traffic, nil if it should.
func (h *Health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reason()
}

// Sound is Ready for those who restart a process that is not: a configuration that has not come yet is no reason.
func (h *Health) Sound() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if errors.Is(h.state, errUnconfigured) {
		return h.away
	}
	return h.reason()
}

func (h *Health) reason() error { return cmp.Or(h.state, h.away) }

// tell lets gRPC health know.
func (h *Health) tell() {
	s := healthpb.HealthCheckResponse_SERVING
	if h.reason() != nil {
		s = healthpb.HealthCheckResponse_NOT_SERVING
	}
	for _, name := range []string{"", "ratelimit", rls.ServiceName} {
		h.grpc.SetServingStatus(name, s)
	}
}
