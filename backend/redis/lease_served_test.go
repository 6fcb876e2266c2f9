package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// served is replicas before one server, each with its limiter, whose estimated rates decide about leases. They share one
// clock, which only passes moves.
type served struct {
	t        *testing.T
	domain   string
	shard    *atomic.Int64
	now      time.Time
	replicas []*replica
}

// replica is a limiter and a guard that count what they ask the store.
type replica struct {
	*Store
	of      *served
	guard   *guard.Guard
	limiter *limit.Limiter
	call    limit.Call

	checks, questions int // checks that the store was asked, and those of them that asked about leases
}

// serve starts replicas under rules, which are the value of `descriptors` in YAML.
func serve(t *testing.T, c topology.Config, replicas int, leases bool, rules string) *served {
	t.Helper()
	s := &served{t: t, domain: fmt.Sprintf("%s/%d/%v", t.Name(), replicas, leases), shard: new(atomic.Int64),
		now: time.Unix(1_796_000_000, 0)}
	store := opened(t, c, s.shard)
	for range replicas {
		r := &replica{Store: store, of: s}
		r.guard = guard.New(r, guard.Config{Leases: leases, Now: func() time.Time { return s.now }, Replicas: func() int { return replicas }})
		r.limiter = limit.New(r.guard, limit.Options{Algorithm: descriptors.SlidingWindow, Leases: leases}, hits.New(0))
		r.limiter.Apply(fixture.Config(t, fmt.Sprintf("domain: %q\ndescriptors: %s", s.domain, rules)))
		s.replicas = append(s.replicas, r)
	}
	s.passes(0)
	return s
}

// passes moves the clock, in steps between which each replica may settle the leases that have ended.
func (s *served) passes(d time.Duration) {
	for step := range steps(d) {
		s.now = s.now.Add(step)
		s.shard.Store(s.now.UnixMicro())
		for _, r := range s.replicas {
			r.guard.Settle(s.t.Context())
		}
	}
}

// Decide counts the checks, and asks the store.
func (r *replica) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	r.checks += len(checks)
	for i := range checks {
		if checks[i].Lease != nil {
			r.questions++
		}
	}
	return r.Store.Decide(ctx, checks, out)
}

// asks has the replica decide a request. The statuses of its descriptors are valid until the next request.
func (r *replica) asks(all ...limit.Descriptor) []limit.Status {
	r.of.t.Helper()
	r.call.Reset()
	r.call.Domain, r.call.At = r.of.domain, r.of.now
	r.call.Descriptors = append(r.call.Descriptors[:0], all...)
	ctx, cancel := context.WithTimeout(r.of.t.Context(), ample)
	defer cancel()
	if err := r.limiter.Decide(ctx, &r.call); err != nil {
		r.of.t.Fatal(err)
	}
	return r.call.Statuses
}

// user returns the descriptor of a user, with an override if one is given.
func user(name string, own ...limit.Override) limit.Descriptor {
	d := limit.Descriptor{Entries: descriptors.Descriptor{{Key: "user", Value: name}}}
	if len(own) > 0 {
		d.Override, d.HasOverride = own[0], true
	}
	return d
}

// lent returns how many hits were granted to the replicas, and how many of these they have used.
func (s *served) lent() (granted, used uint64) {
	for _, r := range s.replicas {
		stats := r.guard.Stats()
		granted, used = granted+stats.LeaseGranted, used+stats.LeaseUsed
	}
	return granted, used
}
