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

// byUnit counts checks whose limits are all per second in the special store, and all others, mixed ones too, in the
// main store.
type byUnit struct{ pair }

// PerSecond makes one store of two: perSecond counts limits per second, main all others.
func PerSecond(main, perSecond Counters) Counters { return byUnit{pair{main, perSecond}} }

func allPerSecond(limits []descriptors.Limit) bool {
	return !slices.ContainsFunc(limits, func(l descriptors.Limit) bool { return l.Unit != descriptors.Second })
}

// Decide implements [backend.Counter].
func (s byUnit) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	return s.decide(ctx, checks, out, func(c *backend.Check) bool { return allPerSecond(c.Limits) })
}

// Inspect asks the store that counts under these limits.
func (s byUnit) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	return s.store(allPerSecond(limits)).Inspect(ctx, key, limits)
}

// Reset removes a key from both stores, as an earlier limit of the key may have had another unit.
func (s byUnit) Reset(ctx context.Context, key []byte) error {
	return errors.Join(s.main.Reset(ctx, key), s.special.Reset(ctx, key))
}

// byFormat counts keys of envoyproxy/ratelimit in the main store, weir's in the special one, on the same servers.
type byFormat struct{ pair }

// OpenRatelimit makes a store that counts keys of envoyproxy/ratelimit by INCRBY, with that program's rights, and
// others by the script, which is loaded when a check needs it. Until then a server that answers PING is healthy.
func OpenRatelimit(c Config, keys ratelimit.Keys) (Counters, error) {
	servers, err := topology.Connect(c.Redis, ratelimitRights)
	if err != nil {
		return nil, err
	}
	log := servers.Config.Log.With(slog.String("keys", descriptors.KeysOfWeir.String()))
	// Redis refuses a pattern of keys to a user of all keys, as counting by INCRBY needs.
	scriptServers := servers.WithRights(strings.TrimPrefix(rights, "~weir:* "), log)
	main, special := newRatelimit(servers, c, keys), newScripted(scriptServers, c, c.newScript())
	main.StartProbes(main.probe)
	return byFormat{pair{main, special}}, nil
}

func isWeirKey(key []byte) bool {
	_, ratelimits := descriptors.RatelimitKey(key)
	return !ratelimits
}

// Decide implements [backend.Counter].
func (s byFormat) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := ratelimit.Validate(checks); err != nil {
		return err
	}
	return s.decide(ctx, checks, out, func(c *backend.Check) bool { return isWeirKey(c.Key) })
}

// Inspect asks the store that counts a key.
func (s byFormat) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	return s.store(isWeirKey(key)).Inspect(ctx, key, limits)
}

// Reset deletes a key in the store that counts it.
func (s byFormat) Reset(ctx context.Context, key []byte) error {
	return s.store(isWeirKey(key)).Reset(ctx, key)
}

// pair is a store of two stores. Each check goes to one of them.
type pair struct{ main, special Counters }

// store returns one of the stores. It starts a special [Store] that has not started yet.
func (p pair) store(special bool) Counters {
	if !special {
		return p.main
	}
	if s, ok := p.special.(*Store); ok {
		s.start()
	}
	return p.special
}

// decide sends each check to its store. It calls both stores at the same time.
func (p pair) decide(ctx context.Context, checks []backend.Check, out []backend.Decision, isSpecial func(*backend.Check) bool) error {
	specials := 0
	for i := range checks {
		if isSpecial(&checks[i]) {
			specials++
		}
	}
	switch {
	case specials == 0, specials == len(checks):
		return p.store(specials > 0).Decide(ctx, checks, out)
	case len(out) < len(checks):
		return backend.Validate(checks, out)
	}
	var first, second backend.Subset
	for i := range checks {
		if isSpecial(&checks[i]) {
			second.Add(checks, i)
		} else {
			first.Add(checks, i)
		}
	}
	done := make(chan error, 1)
	go func() { done <- p.store(true).Decide(ctx, second.Checks, second.Out) }()
	err := cmp.Or(p.main.Decide(ctx, first.Checks, first.Out), <-done)
	first.CopyTo(out)
	second.CopyTo(out)
	return err
}

// Close closes both stores.
func (p pair) Close() error {
	return errors.Join(p.special.Close(), p.main.Close())
}

// ProbeErr returns nil if both stores could count when they were last probed.
func (p pair) ProbeErr() error { return cmp.Or(p.main.ProbeErr(), p.special.ProbeErr()) }

// Await waits until both stores are ready.
func (p pair) Await(ctx context.Context) error {
	return cmp.Or(p.main.Await(ctx), p.special.Await(ctx))
}

// Servers returns the state of each server, the worse one if the stores differ.
func (p pair) Servers() map[string]backend.ServerState {
	states := p.main.Servers()
	for name, special := range p.special.Servers() {
		if main, ok := states[name]; !ok || main == backend.ServerUp || special == backend.ServerAway {
			states[name] = special
		}
	}
	return states
}

// Notify implements [backend.Health].
func (p pair) Notify(c chan<- struct{}) {
	p.main.Notify(c)
	p.special.Notify(c)
}

// Replicas returns the larger of the stores' numbers.
func (p pair) Replicas() (alive int, complete bool) {
	alive, complete = p.main.Replicas()
	other, otherComplete := p.special.Replicas()
	return max(alive, other), complete || otherComplete
}

// Stats returns the sums of both stores' statistics.
func (p pair) Stats() pipeline.Stats {
	sum := p.main.Stats()
	sum.Add(p.special.Stats())
	return sum
}
