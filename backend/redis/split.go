package redis

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// Split counts some checks in one store and the others in another.
type Split struct {
	first, second Counters
	// isSecond reports whether the second store counts a key under limits.
	isSecond func(key []byte, limits []descriptors.Limit) bool
	// scripted is the second store, if both are on the same servers, chosen by the key: it begins at its first check.
	scripted *Store
}

var _ Counters = (*Split)(nil)

// PerSecond counts checks whose limits are all per second in one Redis, all others, mixed ones too, in another.
func PerSecond(main, perSecond Counters) *Split {
	isSecond := func(_ []byte, limits []descriptors.Limit) bool {
		return !slices.ContainsFunc(limits, func(l descriptors.Limit) bool { return l.Unit != descriptors.Second })
	}
	return &Split{first: main, second: perSecond, isSecond: isSecond}
}

// OpenRatelimit makes a store that counts keys of envoyproxy/ratelimit by INCRBY, with that program's rights, and
// others by the script, which is loaded when a check needs it. Until then servers are healthy that answer PING.
func OpenRatelimit(c Config, keys ratelimit.Keys) (*Split, error) {
	servers, err := topology.Connect(c.Redis, ratelimitRights)
	if err != nil {
		return nil, err
	}
	log := servers.Config.Log.With(slog.String("keys", descriptors.KeysOfWeir.String()))
	// Redis refuses a pattern of keys to a user of all keys, as counting by INCRBY needs.
	beside := servers.WithRights(strings.TrimPrefix(rights, "~weir:* "), log)
	first, second := newRatelimit(servers, c, keys), newScripted(beside, c, c.newScript())
	isSecond := func(key []byte, _ []descriptors.Limit) bool {
		_, plain := descriptors.RatelimitKey(key)
		return !plain
	}
	first.Watch(first.probe)
	return &Split{first: first, second: second, isSecond: isSecond, scripted: second}, nil
}

// startedSecond returns the second store, which it begins if need be.
func (s *Split) startedSecond() Counters {
	if s.scripted != nil {
		s.scripted.begin()
	}
	return s.second
}

// Decide asks both stores at the same time, each about its own checks, or only the one that has all of them.
func (s *Split) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := ratelimit.Validate(checks); err != nil {
		return err
	}
	secondCount := 0
	for i := range checks {
		if s.isSecond(checks[i].Key, checks[i].Limits) {
			secondCount++
		}
	}
	switch {
	case secondCount == 0:
		return s.first.Decide(ctx, checks, out)
	case secondCount == len(checks):
		return s.startedSecond().Decide(ctx, checks, out)
	case len(out) < len(checks):
		return backend.Validate(checks, out)
	}
	var first, second backend.Part
	for i := range checks {
		if s.isSecond(checks[i].Key, checks[i].Limits) {
			second.Add(checks, i)
		} else {
			first.Add(checks, i)
		}
	}
	done := make(chan error, 1)
	go func() { done <- s.startedSecond().Decide(ctx, second.Checks, second.Out) }()
	err := cmp.Or(s.first.Decide(ctx, first.Checks, first.Out), <-done)
	first.HandOver(out)
	second.HandOver(out)
	return err
}

// Inspect asks the store that counts a key under these limits.
func (s *Split) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	if s.isSecond(key, limits) {
		return s.startedSecond().Inspect(ctx, key, limits)
	}
	return s.first.Inspect(ctx, key, limits)
}

// Reset forgets a key, in both stores if limits choose the store: the key may have had a limit of another unit.
func (s *Split) Reset(ctx context.Context, key []byte) error {
	switch {
	case s.scripted == nil:
		return errors.Join(s.first.Reset(ctx, key), s.second.Reset(ctx, key))
	case s.isSecond(key, nil):
		return s.startedSecond().Reset(ctx, key)
	}
	return s.first.Reset(ctx, key)
}

// Close closes both stores.
func (s *Split) Close() error {
	return errors.Join(s.second.Close(), s.first.Close())
}

// Ready returns nil once both stores are ready.
func (s *Split) Ready() error { return cmp.Or(s.first.Ready(), s.second.Ready()) }

// Answers returns nil if both stores could count when they were last probed.
func (s *Split) Answers() error { return cmp.Or(s.first.Answers(), s.second.Answers()) }

// Await waits until both stores are ready.
func (s *Split) Await(ctx context.Context) error {
	return cmp.Or(s.first.Await(ctx), s.second.Await(ctx))
}

// Servers returns the state of each server, the worse one if the stores differ.
func (s *Split) Servers() map[string]backend.ServerState {
	known := s.first.Servers()
	for name, state := range s.second.Servers() {
		if before, there := known[name]; !there || before == backend.ServerUp || state == backend.ServerAway {
			known[name] = state
		}
	}
	return known
}

// Replicas returns how many processes live by the store that knows of most.
func (s *Split) Replicas() (alive int, all bool) {
	alive, all = s.first.Replicas()
	other, known := s.second.Replicas()
	return max(alive, other), all || known
}

// Stats returns the sums of both stores.
func (s *Split) Stats() pipeline.Stats {
	sum := s.first.Stats()
	sum.Add(s.second.Stats())
	return sum
}
